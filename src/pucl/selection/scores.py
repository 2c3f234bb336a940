"""How good a classifier is when only positives and unlabelled rows are known: risks, accuracy, AUC, precision, F1."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument, check_share, is_number
from pucl.labels import check_labels, check_negatives
from pucl.numerics.auc import Floats, auc

PRIORS = 101  # shares on the grid of `score_ranges`


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error; π is taken as given, so an error in π comes on top."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


@dataclass(frozen=True, kw_only=True)
class RankingScores:
    """What P and U say about a classifier without π; the formulas are in `pu_scores`.

    Attributes:
        pu_auc: chance that a labelled positive scores above an unlabelled row; at most 1 − π/2 when perfect.
        recall: share of held-out labelled positives called positive.
        found: share of U called positive.
        specificity: share of the confirmed negatives not called positive; None without confirmed negatives.
        pn_auc: chance that a labelled positive scores above a confirmed negative; None without them.
    """

    pu_auc: Estimate
    recall: Estimate
    found: Estimate
    specificity: Estimate | None = None
    pn_auc: Estimate | None = None

    def __str__(self) -> str:
        return (
            f"recall {self.recall}, AUC of labelled against unlabelled rows {self.pu_auc}; accuracy, precision and F1 "
            "need the share of positives"
        )


@dataclass(frozen=True, kw_only=True)
class PUScores(RankingScores):
    """The quality of a classifier, estimated from P, U and π; the formulas are in `pu_scores`.

    Attributes:
        prior: the π they were computed with.
        zero_one_risk: error on U; unbiased, so noise may push it below 0.
        upu_risk: risk on U with the sigmoid loss; unbiased.
        nnpu_risk: the same with its negative part held at 0 or above; a slight over-estimate.
        proxy_accuracy: accuracy on U, two-sample; unbiased, so noise may push it above 1.
        proxy_accuracy_one_sample: accuracy on P ∪ U, one-sample; unbiased.
        auc: chance that a positive scores above a negative, within [0, 1].
        precision: share of positives among the rows of U called positive, within [0, 1]; 0 if there are none.
        f1: harmonic mean of precision and recall on U, within [0, 1].
        pu_auc, recall, found, specificity, pn_auc: as in `RankingScores`.
    """

    prior: float
    zero_one_risk: Estimate
    upu_risk: Estimate
    nnpu_risk: Estimate
    proxy_accuracy: Estimate
    proxy_accuracy_one_sample: Estimate
    auc: Estimate
    precision: Estimate
    f1: Estimate

    def __str__(self) -> str:
        figures = f"accuracy {self.proxy_accuracy}, F1 {self.f1}, AUC {self.auc}, all estimated without negatives"
        if self.specificity is None:
            return figures
        return f"{figures}; specificity {self.specificity} on confirmed negatives"


def pu_scores(logits: Any, s: Any, *, prior: float, threshold: float = 0.0, negatives: Any = None) -> PUScores:
    """Judge a classifier from logits of rows that did not train it; `hold_out` sets such rows aside.

        r = TPR_P,   q = FPR_U, the share of U above the threshold,   c = n_P / (n_P + n_U)
        zero-one risk          R = 2π(1 − r) + q − π
        accuracy, two-sample   1 − R = (2πr + TNR_U) − π
        accuracy, one-sample   c r + (1 − c)(1 − R)
        uPU risk               π mean_P[ℓ(g) − ℓ(−g)] + mean_U ℓ(−g),   ℓ(g) = σ(−g)
        nnPU risk              π mean_P ℓ(g) + max(0, mean_U ℓ(−g) − π mean_P ℓ(−g))
        AUC                    (AUC_PU − π/2) / (1 − π), clipped to [0, 1]
        precision              t / q,   F1 = 2t / (q + π),   t = min(πr, q)
        specificity            1 − f, f the share of the confirmed negatives above the threshold

    where g are the logits, π the share of positives inside U, t the share of U that is positive and called so, and the
    labelled rows are assumed to be a random sample of the positives (SCAR). Confirmed negatives are no part of U. The
    specificity needs no π; it is that of all negatives only if the confirmed ones are a random sample of them.

    The published proxy accuracies leave out a constant: two-sample PA = 2πr + TNR_U = accuracy + π. One-sample
    PA = 2π*r + (correct on s among P ∪ U) / (n_P + n_U) = accuracy + π* if π* = (1 − c)π, the share of P ∪ U that is
    positive and unlabelled; with the share of positives in P ∪ U for π*, it is accuracy + π* − c + 2c r, which
    prefers classifiers of high recall.

    Standard errors: binomial for shares, with one success and one failure added so that none is 0; by propagation for
    what is made of them; of DeLong for AUCs; of the sample means for the smooth risks.

    Args:
        logits: one per row (n,), finite.
        s: PU labels (n,), 1 for labelled positives.
        prior: π, strictly between 0 and 1.
        threshold: a row is called positive if its logit is above it.
        negatives: confirmed negatives, a mask (n,) or row numbers; held out as the other rows are.
    """
    owner = "pucl.pu_scores"
    score, labelled = check_logits(logits, s, owner=owner)
    negative = check_negatives(negatives, labelled, len(score), owner)
    check_share(owner, "prior", prior)
    base = ranking_scores(score, labelled, threshold=threshold, owner=owner, negatives=negative)
    return scores_at_share(base, score[labelled], score[unlabelled_rows(labelled, negative)], prior)


def scores_at_share(base: RankingScores, p: Floats, u: Floats, prior: float) -> PUScores:
    """The figures of `pu_scores`, from what needs no π and the logits of P and of U."""
    r, q, c = base.recall.value, base.found.value, len(p) / (len(p) + len(u))
    error_r, error_q = base.recall.error, base.found.error
    risk = Estimate(2 * prior * (1 - r) + q - prior, float(np.hypot(2 * prior * error_r, error_q)))
    accuracy = Estimate(1 - risk.value, risk.error)
    union_error = np.hypot((c + (1 - c) * 2 * prior) * error_r, (1 - c) * error_q)
    upu, nnpu = _smooth_risks(p, u, prior)
    precision, f1 = _precision_and_f1(base.recall, base.found, prior)
    return PUScores(
        prior=prior,
        zero_one_risk=risk,
        upu_risk=upu,
        nnpu_risk=nnpu,
        proxy_accuracy=accuracy,
        proxy_accuracy_one_sample=Estimate(c * r + (1 - c) * accuracy.value, float(union_error)),
        auc=Estimate(true_auc(base.pu_auc.value, prior), base.pu_auc.error / (1 - prior)),
        precision=precision,
        f1=f1,
        **vars(base),
    )


def ranking_scores(
    logits: Any,
    s: Any,
    *,
    threshold: float = 0.0,
    owner: str = "pucl.selection.ranking_scores",
    negatives: Any = None,
    recall: float | None = None,
) -> RankingScores:
    """The estimates of `pu_scores` that need no π: recall, the share of U called positive, and the AUC of P against U.

    Args:
        logits: one per row (n,), finite, of rows that did not train the classifier.
        s: PU labels (n,), 1 for labelled positives.
        threshold: a row is called positive if its logit is above it.
        owner: whom errors name.
        negatives: confirmed negatives, a mask (n,) or row numbers.
        recall: of P, where its rows chose the threshold, so that more of them lie above it than of other positives;
            counted above the threshold when not given.
    """
    score, labelled = check_logits(logits, s, owner=owner)
    negative = check_negatives(negatives, labelled, len(score), owner)
    if not is_number(threshold):
        raise bad_argument(owner, "threshold", "a finite number", threshold)
    p, u = score[labelled], score[unlabelled_rows(labelled, negative)]
    return RankingScores(
        pu_auc=Estimate(*auc(p, u)),
        recall=_share(p > threshold) if recall is None else _share_of(recall * len(p), len(p)),
        found=_share(u > threshold),
        specificity=None if negative is None else _share(score[negative] <= threshold),
        pn_auc=None if negative is None else Estimate(*auc(p, score[negative])),
    )


def score_ranges(scores: RankingScores, low: float, high: float) -> dict[str, tuple[float, float]]:
    """Lowest and highest precision, F1 and accuracy on U for any π from `low` to `high`; formulas as in `pu_scores`.

    The smallest and the largest value on a grid of shares, within [0, 1]; precision and F1 are 0 where π is.
    """
    prior = np.linspace(low, high, PRIORS)
    r, q = scores.recall.value, scores.found.value
    both = np.minimum(prior * r, q)
    figures = {
        "precision": both / q if q > 0 else np.zeros_like(prior),
        "f1": np.divide(2 * both, q + prior, out=np.zeros_like(prior), where=q + prior > 0),
        "accuracy": np.clip(1 - (2 * prior * (1 - r) + q - prior), 0, 1),
    }
    return {name: (float(values.min()), float(values.max())) for name, values in figures.items()}


def true_auc(pu_auc: float, prior: float) -> float:
    """The AUC of positives against negatives, (AUC_PU − π/2) / (1 − π) clipped to [0, 1]."""
    return float(np.clip((pu_auc - prior / 2) / (1 - prior), 0, 1))


def unlabelled_rows(labelled: NDArray[np.bool_], negative: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """U, the rows that are neither labelled positive nor confirmed negative, (n,) bool."""
    return ~labelled if negative is None else ~(labelled | negative)


@dataclass(frozen=True)
class ThresholdCurve:
    """Estimates at falling thresholds, one per different score of U, each array (m,).

    Attributes:
        threshold: rows above it are called positive.
        precision: share of positives among the rows of U called positive.
        recall: share of the labelled positives called positive.
        f1: harmonic mean of the two.
        found: how many rows of U are called positive, from 1 to n_U when scores differ.
    """

    threshold: Floats
    precision: Floats
    recall: Floats
    f1: Floats
    found: NDArray[np.int64]

    @property
    def best(self) -> int:
        """Where F1 is highest, the highest threshold of equals."""
        return int(self.f1.argmax())


def threshold_curve(logits: Any, s: Any, prior: float, *, negatives: Any = None) -> ThresholdCurve:
    """Precision, recall and F1 at every threshold that changes which rows of U are called positive.

        q = |{i ∈ U : g_i > c}| / n_U,   r likewise in P,   precision t / q,   F1 = 2t / (q + π),   t = min(πr, q)

    where c runs down the scores of U. Between two of them only recall changes, and c is the lower one, which
    has the higher recall. The last threshold is just below every score.

    Args:
        logits: one per row (n,), of rows that did not train the classifier.
        s: PU labels (n,).
        prior: π, strictly between 0 and 1.
        negatives: confirmed negatives, a mask (n,) or row numbers; they are no part of U.
    """
    owner = "pucl.threshold_curve"
    score, labelled = check_logits(logits, s, owner=owner)
    negative = check_negatives(negatives, labelled, len(score), owner)
    check_share(owner, "prior", prior)
    p = np.sort(score[labelled])
    at, count = np.unique(score[unlabelled_rows(labelled, negative)], return_counts=True)
    threshold = np.concatenate([[np.nextafter(score.min(), -np.inf)], at[:-1]])[::-1]
    called = np.cumsum(count[::-1])
    recall = 1 - np.searchsorted(p, threshold, side="right") / len(p)
    q = called / called[-1]
    both = np.minimum(prior * recall, q)
    return ThresholdCurve(threshold, both / q, recall, 2 * both / (q + prior), called)


def check_logits(logits: Any, s: Any, *, owner: str, argument: str = "logits") -> tuple[Floats, NDArray[np.bool_]]:
    """Logits as a float64 vector and PU labels as a boolean one, or one clear error."""
    raw = logits.detach().cpu().double() if hasattr(logits, "detach") else logits
    try:
        score = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise bad_argument(owner, argument, "a vector of numbers", Described(type(logits).__name__)) from None
    if score.ndim != 1:
        raise bad_argument(owner, argument, "a vector", Described(f"an array of shape {score.shape}"))
    if not np.isfinite(score).all():
        row = int(np.isfinite(score).argmin())
        raise bad_argument(owner, argument, "finite", Described(f"{score[row]} at row {row}"))
    labelled = check_labels(s, owner=owner)
    if len(score) != len(labelled):
        raise bad_argument(owner, argument, f"of length {len(labelled)}, as s", Described(f"length {len(score)}"))
    return score, labelled


def _share(hit: NDArray[np.bool_]) -> Estimate:
    return _share_of(int(hit.sum()), len(hit))


def _share_of(k: float, n: int) -> Estimate:
    safe = (k + 1) / (n + 2)
    return Estimate(k / n, float(np.sqrt(safe * (1 - safe) / n)))


def _smooth_risks(p: Floats, u: Floats, prior: float) -> tuple[Estimate, Estimate]:
    """Risks of uPU and nnPU with the sigmoid loss; ℓ(−g) = σ(g) = 1 − ℓ(g)."""
    on_p, on_u = _sigmoid(p), _sigmoid(u)
    as_positive, as_negative = prior * (1 - on_p.mean()), on_u.mean() - prior * on_p.mean()
    error = float(np.sqrt(4 * prior**2 * on_p.var() / len(p) + on_u.var() / len(u)))
    unbiased, non_negative = as_positive + as_negative, as_positive + max(0.0, as_negative)
    return Estimate(float(unbiased), error), Estimate(float(non_negative), error)


def _sigmoid(g: Floats) -> Floats:
    return np.asarray((1 + np.tanh(g / 2)) / 2)


def _precision_and_f1(recall: Estimate, called: Estimate, prior: float) -> tuple[Estimate, Estimate]:
    """t/q and 2t/(q + π), with relative errors from those of t = πr and of the denominators."""
    r, q = recall.value, called.value
    both = min(prior * r, q)
    precision, f1 = both / q if q > 0 else 0.0, 2 * both / (q + prior)
    of_r = recall.error / r if r > 0 else 0.0
    of_q = called.error / q if q > 0 else 0.0
    f1_error = f1 * np.hypot(of_r, called.error / (q + prior))
    return Estimate(precision, float(precision * np.hypot(of_r, of_q))), Estimate(f1, float(f1_error))
