"""Held-out scores on one axis: the densities of P and U, and what each threshold gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pucl.priors import PriorEstimate

Floats = NDArray[np.float64]

WIDEST = 9.2  # logits beyond it are probabilities within 0.0001 of 0 or 1
NARROWEST = 1.0
STEPS = 400
LOW_TAIL = 0.005  # share of the lowest scores left out: thresholds down there call every row positive
FEWEST_BINS, MOST_BINS = 10, 40
FEWEST = 5  # held-out unlabelled rows above a threshold from which its precision is shown


def grid(scores: Floats) -> Floats:
    """Logits from the low tail of `scores` to their highest, evenly apart; 0 is always one of them."""
    low, high = (np.clip(edge, -WIDEST, WIDEST) for edge in (np.quantile(scores, LOW_TAIL), scores.max()))
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    short = max(0.0, NARROWEST - (high - low)) / 2
    step = (high - low + 2 * short) / STEPS
    return np.arange(np.floor((low - short) / step), np.ceil((high + short) / step) + 1) * step


def sigmoid(logit: Floats) -> Floats:
    """The probability of a logit."""
    return np.asarray((1 + np.tanh(logit / 2)) / 2)


@dataclass(frozen=True)
class Histogram:
    """Densities per unit of the logit; each integrates to 1.

    Attributes:
        edges: of the b bins, (b + 1,).
        labelled: density of the labelled rows, (b,).
        unlabelled: density of the unlabelled rows, (b,).
    """

    edges: Floats
    labelled: Floats
    unlabelled: Floats


def histogram(labelled: Floats, unlabelled: Floats, low: float, high: float) -> Histogram:
    """Both densities on bins from `low` to `high`; scores beyond are counted in the outermost bins."""
    bins = int(np.clip(1.5 * np.sqrt(min(len(labelled), len(unlabelled))), FEWEST_BINS, MOST_BINS))
    edges = np.linspace(low, high, bins + 1)
    return Histogram(edges, _density(labelled, edges), _density(unlabelled, edges))


def _density(scores: Floats, edges: Floats) -> Floats:
    counts, _ = np.histogram(np.clip(scores, edges[0], edges[-1]), bins=edges)
    return np.asarray(counts / (len(scores) * np.diff(edges)))


@dataclass(frozen=True)
class OperatingPoints:
    """Estimates at rising thresholds, each array (m,); precision and positives are NaN where too few rows lie above.

    Attributes:
        threshold: logits above which a row is called positive.
        called: how many of all unlabelled rows are called positive.
        precision: share of positives among them.
        recall: share of the positives that are called positive.
        f1: harmonic mean of precision and recall.
        precision_error: standard error of precision; the errors do not include that of π.
        recall_error: of recall.
        f1_error: of F1.
        positives: expected number of positives among the rows called positive.
        positives_low: the same with the low end of the interval of π.
        positives_high: the same with the high end.
        lift: how many times richer in positives the rows called positive are than a random pick; needs no π.
    """

    threshold: Floats
    called: NDArray[np.int64]
    precision: Floats
    recall: Floats
    f1: Floats
    precision_error: Floats
    recall_error: Floats
    f1_error: Floats
    positives: Floats
    positives_low: Floats
    positives_high: Floats
    lift: Floats

    @property
    def half(self) -> int:
        """Where the threshold is a probability of one half."""
        return int(np.abs(self.threshold).argmin())

    @property
    def best(self) -> int:
        """Where F1 is highest, the highest threshold of equals."""
        return int(len(self.f1) - 1 - self.f1[::-1].argmax())


def operating_points(
    threshold: Floats, labelled: Floats, unlabelled: Floats, quantiles: Floats, n_unlabelled: int, prior: PriorEstimate
) -> OperatingPoints:
    """The figures of `pucl.pu_scores` at every threshold, and what they mean for all unlabelled rows.

        precision t / q,   F1 = 2t / (q + π),   t = min(πr, q),   expected positives = called · t / q

    where r and q are the shares of held-out labelled and unlabelled rows above the threshold; the lift is r / q. Errors
    of shares are binomial with one success and one failure added, those of the ratios follow by propagation. Where π is
    only bounded, precision and positives are the most they can be; otherwise precision and F1 take the low end of π.

    Args:
        threshold: rising logits (m,).
        labelled: logits of the held-out labelled positives.
        unlabelled: logits of the held-out unlabelled rows.
        quantiles: logits of all unlabelled rows, thinned evenly by rank.
        n_unlabelled: how many unlabelled rows there are.
        prior: π.
    """
    share = prior.value if prior.is_bound else prior.cautious
    r, r_error = _share_above(labelled, threshold)
    q, q_error = _share_above(unlabelled, threshold)
    called = count_above(quantiles, n_unlabelled, threshold)
    q_known = np.where(q * len(unlabelled) >= FEWEST - 0.5, q, np.nan)
    precision, f1 = _precision(share, r, q_known), 2 * np.minimum(share * r, q) / (q + share)
    of_r, of_q = _ratio(r_error, r), _ratio(q_error, q)
    ends = (end if np.isfinite(end) else prior.value for end in (prior.low, prior.high))
    positives, low, high = (_expected(called, _precision(each, r, q_known)) for each in (prior.value, *ends))
    return OperatingPoints(
        threshold,
        called,
        precision,
        r,
        f1,
        precision * np.hypot(of_r, of_q),
        r_error,
        f1 * np.hypot(of_r, q_error / (q + share)),
        positives,
        low,
        high,
        r / q_known,
    )


def count_above(quantiles: Floats, n: int, threshold: Floats) -> NDArray[np.int64]:
    """How many of n sorted values lie above each threshold, when only every so many of them is known.

    The known ones stand at even ranks from the lowest to the highest; in between ranks are interpolated. Exact when
    all n are known.
    """
    if len(quantiles) == 1:
        return np.where(quantiles[0] > threshold, n, 0)
    order = np.arange(len(quantiles)) * (n - 1) / (len(quantiles) - 1)
    known = np.searchsorted(quantiles, threshold, side="right")
    left = np.clip(known - 1, 0, len(quantiles) - 2)
    gap = quantiles[left + 1] - quantiles[left]
    part = np.clip((threshold - quantiles[left]) / np.where(gap > 0, gap, 1.0), 0, 1)
    # A rank just short of a whole number is that number: rounding errors must not lose a row.
    rank = np.floor(order[left] + part * (order[left + 1] - order[left]) + 1e-9)
    inside = n - 1 - np.clip(rank, 0, n - 2)
    return np.where(known == 0, n, np.where(known == len(quantiles), 0, inside)).astype(np.int64)


def _share_above(scores: Floats, threshold: Floats) -> tuple[Floats, Floats]:
    n, k = len(scores), len(scores) - np.searchsorted(np.sort(scores), threshold, side="right")
    safe = (k + 1) / (n + 2)
    return np.asarray(k / n), np.sqrt(safe * (1 - safe) / n)


def _precision(prior: float, r: Floats, q: Floats) -> Floats:
    return np.minimum(prior * r, q) / q


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _expected(called: NDArray[np.int64], precision: Floats) -> Floats:
    return np.where(called > 0, called * precision, 0.0)
