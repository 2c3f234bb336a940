"""estimate_prior: π from embeddings or scores, by any estimator, with an interval."""

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.errors import (
    Described,
    RunWarning,
    bad_argument,
    check_count,
    check_share,
    signed_by,
    unknown_name,
    users_line,
)
from pucl.labels import check_labels, check_negatives
from pucl.numerics.floats import as_tensor, check_finite, in_range
from pucl.priors import PriorEstimate
from pucl.priors.adjusted_count import FEWEST, adjusted_count, negatives_look_random
from pucl.priors.adjusted_count import NAME as COUNTED
from pucl.priors.samples import Array
from pucl.priors.settings import SETTINGS, SINGLE_SET
from pucl.ranking.averaging import TableRows, averaged_logits, rank_all
from pucl.ranking.columns import as_arrays, share_at_gap
from pucl.ranking.kernel_cvir import kernel_draw
from pucl.ranking.scaling import standardised
from pucl.ranking.separability import plausible_share
from pucl.ranking.whitening import ranked_directions
from pucl.registry import Entry, check_options, get

OWNER = "pucl.estimate_prior"
DEFAULT_ESTIMATOR = "bbe"  # what method="auto" means, on scores as they are; rows are ranked first
CONFIDENCE = 0.9  # of intervals
REPLICATES, REPLICATE_ROWS = 10, 300  # most replicates of a point method, most rows of a set in each
Estimator = Callable[[Array, Array], float]
Bools = NDArray[np.bool_]


@signed_by(OWNER)
def estimate_prior(
    z: Any,
    s: Any,
    *,
    method: str = "auto",
    negatives: Any = None,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    folds: int = 5,
    setting: str = "case-control",
    bootstrap: int = 50,
    **options: Any,
) -> PriorEstimate:
    """Estimate π, the share of positives inside the unlabelled set.

    Estimators of scores get out-of-fold logits (or probabilities) of a logistic regression of P against U with the
    kernel of `kernel_cvir`; estimators of points get the embeddings themselves. The interval is the method's own where
    it has one; else it comes from resampled scores (percentiles over `bootstrap` replicates), or for estimators of
    points from ten half-samples of at most 300 rows a set (value ± z · sd, the sd scaled to the full size). It shows
    the spread of sampling only, not the bias an estimator has where the classes overlap.

    Args:
        z: embeddings (n, k), or scores (n,) that rank positives high and come from models that did not see the row.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        method: a registered estimator, or ``"auto"``: of scores BBE; of rows what `PUClassifier` says of them, BBE on
            the average of its fast rankers, which is an estimate where these separate the classes and an upper bound
            elsewhere (``is_bound``, see `plausible_share`). With confirmed negatives ``"auto"`` is `adjusted_count`,
            which is right for overlapping classes too. It assumes that they are a random sample of all negatives;
            where the scores contradict that, there is a warning, and BBE is taken.
        negatives: rows known to be negative, a mask (n,) or row numbers; they are no part of U.
        seed: of folds, draws and replicates.
        confidence: of the interval; ``"auto"`` on rows always has one of 90 %.
        folds: how many folds scores are made with; fewer when P or U is smaller.
        setting: ``"case-control"`` (P and U drawn apart) or ``"single-set"`` (P labelled out of one set). π is the
            share in U in both; replicates of a single set draw n_P anew. `to_single_set` turns π into the share of
            positives in the whole set.
        bootstrap: how many replicates the interval comes from.
        options: what else the method takes.
    """
    rows, labelled = _check(z, s)
    negative = check_negatives(negatives, labelled, len(rows), OWNER)
    entry = get("priors", DEFAULT_ESTIMATOR if method == "auto" else method)
    _check_arguments(seed, confidence, folds, setting, bootstrap)
    takes = inspect.signature(entry.function).parameters
    shared = {"seed": seed, "confidence": confidence, "folds": folds}
    check_options(entry, options)
    keywords = {name: value for name, value in shared.items() if name in takes} | options
    if method == "auto" and rows.ndim == 2:
        _refuse(options if confidence == CONFIDENCE else {**options, "confidence": confidence})
        return _of_rows(rows.cpu(), labelled, negative, seed=seed)
    sample = _sample_for(entry, rows, labelled, negative, folds=folds, seed=seed)
    p, u = sample[labelled], sample[~labelled if negative is None else ~(labelled | negative)]
    if method == "auto" and negative is not None and _usable(p, u, sample[negative], seed):
        return adjusted_count(p, u, sample[negative], confidence=confidence, seed=seed)
    estimate: PriorEstimate = entry.function(p, u, **keywords)
    if "confidence" in takes:
        return estimate
    random, single_set = np.random.default_rng(seed), setting == SINGLE_SET
    return _resampled(entry, keywords, estimate, p, u, random, bootstrap, confidence, single_set)


def _refuse(options: dict[str, Any]) -> None:
    for name, value in options.items():
        raise bad_argument(OWNER, name, "left out with method='auto' on rows; method='bbe' takes it", value)


def _of_rows(rows: Tensor, labelled: Bools, negative: Bools | None, *, seed: int) -> PriorEstimate:
    """π of rows of numbers by `prior_of_table`."""
    known = None if negative is None else torch.from_numpy(negative)
    columns, _, _ = as_arrays(OWNER, rows, torch.from_numpy(labelled), (), known)
    return prior_of_table(TableRows(columns, (), standardised(columns)[0], labelled, negative, seed))


def prior_of_table(rows: TableRows) -> PriorEstimate:
    """π̂ from the averaged ranks of all rankers of tables, or the bound that they give: what `PUClassifier` says."""
    ranked, _ = rank_all(rows)
    score, labelled, negative = averaged_logits(ranked), rows.labelled, rows.negative
    known = None if negative is None else torch.from_numpy(negative)
    share = share_at_gap(torch.from_numpy(score), torch.from_numpy(labelled), known)
    point = PriorEstimate.point(share, DEFAULT_ESTIMATOR)
    estimate = plausible_share(score, labelled, point, rows=rows.features, seed=rows.seed, negative=negative)
    if negative is not None and estimate.method != COUNTED:
        warnings.warn(not_random(int(negative.sum())), RunWarning, stacklevel=users_line())
    return estimate


def _usable(p: Array, u: Array, n: Any, seed: int) -> bool:
    """Whether the negatives may be a random sample of all negatives; a warning where they cannot."""
    random = negatives_look_random(p, u, n, seed=seed)
    if not random:
        warnings.warn(not_random(len(n)), RunWarning, stacklevel=users_line())
    return random


def not_random(n_negatives: int) -> str:
    """The warning about negatives that π cannot be estimated from."""
    if n_negatives < FEWEST:
        return f"The share of positives is estimated without the {n_negatives} negatives: at least {FEWEST} are needed."
    return (
        "The share of positives is estimated without the negatives: they do not look like a random sample of all "
        "negatives. Check some unlabelled rows that are picked at random."
    )


def _check(z: Any, s: Any) -> tuple[Tensor, Any]:
    try:
        rows = as_tensor(z)
    except (TypeError, ValueError, RuntimeError):
        allowed = (
            "floating-point embeddings (n, k) or scores (n,); PriorEstimator takes categories, dates and texts, too"
        )
        raise bad_argument(OWNER, "z", allowed, Described(f"a {type(z).__name__} of other values")) from None
    if rows.ndim not in (1, 2) or rows.numel() == 0 or not rows.is_floating_point():
        got = Described(f"{rows.dtype} of shape {tuple(rows.shape)}")
        raise bad_argument(OWNER, "z", "floating-point embeddings (n, k) or scores (n,)", got)
    rows = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
    check_finite(OWNER, "z", rows)
    labelled = check_labels(s, n_rows=len(rows), owner=OWNER)
    if bool((rows == rows[0]).all()):
        raise bad_argument(OWNER, "z", "at least two different rows", Described("all rows equal"))
    return rows, labelled


def _check_arguments(seed: int, confidence: float, folds: int, setting: str, bootstrap: int) -> None:
    if setting not in SETTINGS:
        raise unknown_name(f"setting of {OWNER}", setting, SETTINGS)
    check_count(OWNER, "seed", seed, low=0)
    check_share(OWNER, "confidence", confidence)
    check_count(OWNER, "folds", folds, low=2)
    check_count(OWNER, "bootstrap", bootstrap, low=2)


def _sample_for(entry: Entry, rows: Tensor, labelled: Bools, negative: Bools | None, *, folds: int, seed: int) -> Array:
    """What the estimator takes of every row: a point (n, k), a score (n,) or a probability (n,)."""
    if "vector" in entry.inputs:
        return np.asarray((rows[:, None] if rows.ndim == 1 else rows).double().cpu().numpy())
    if rows.ndim == 1:
        return np.asarray(rows.double().cpu().numpy())
    positive = torch.from_numpy(labelled).to(rows.device)
    points = ranked_directions(OWNER, _floats(in_range(rows)), positive, centred=True, whitening=None)
    known = None if negative is None else torch.from_numpy(negative).to(rows.device)
    draw = kernel_draw(OWNER, points, positive, prior=None, seed=seed, rounds=0, folds=folds, negative=known)
    score = draw.score
    return np.asarray((score if "score" in entry.inputs else torch.sigmoid(score)).double().cpu().numpy())


def _floats(rows: Tensor) -> Tensor:
    return rows.float() if rows.dtype != torch.float64 else rows


def _resampled(
    entry: Entry, keywords: dict[str, Any], estimate: PriorEstimate, p: Array, u: Array, random: np.random.Generator,
    replicates: int, confidence: float, single_set: bool,
) -> PriorEstimate:  # fmt: skip
    """The estimate with an interval from replicates of the samples of P and of U, widened to contain it."""

    def value_of(positive: Array, unlabelled: Array) -> float:
        return float(entry.function(positive, unlabelled, **keywords).value)

    if "vector" in entry.inputs:
        low, high = _half_samples(value_of, estimate.value, p, u, random, min(replicates, REPLICATES), confidence)
    else:
        low, high = _bootstrap(value_of, p, u, random, replicates, confidence, single_set)
    return replace(estimate, low=max(0.0, min(low, estimate.value)), high=min(1.0, max(high, estimate.value)))


def _bootstrap(
    estimate: Estimator,
    p: Array,
    u: Array,
    random: np.random.Generator,
    replicates: int,
    confidence: float,
    single_set: bool,
) -> tuple[float, float]:
    """Percentiles over samples drawn with replacement from P and from U; a single set draws how many are labelled."""
    total, values = len(p) + len(u), []
    for _ in range(replicates):
        n_p = min(max(int(random.binomial(total, len(p) / total)), 1), total - 1) if single_set else len(p)
        p_again, u_again = random.choice(p, n_p), random.choice(u, total - n_p)
        if np.ptp(p_again) or np.ptp(u_again) or p_again[0] != u_again[0]:
            values.append(estimate(p_again, u_again))
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2]) if values else (0.0, 1.0)
    return float(low), float(high)


def _half_samples(
    estimate: Estimator,
    value: float,
    p: Array,
    u: Array,
    random: np.random.Generator,
    replicates: int,
    confidence: float,
) -> tuple[float, float]:
    """The value ± z · sd, from estimates on a part f ≤ 1/2 of the rows, whose sd is √((1 − f) / f) times too large."""
    part = min(0.5, REPLICATE_ROWS / max(len(p), len(u)))
    sizes = [max(1, round(part * len(rows))) for rows in (p, u)]
    values = []
    for _ in range(replicates):
        drawn = [rows[random.permutation(len(rows))[:size]] for rows, size in zip((p, u), sizes, strict=True)]
        if (np.concatenate(drawn) != drawn[0][0]).any():
            values.append(estimate(*drawn))
    if len(values) < 2:
        return 0.0, 1.0
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * float(np.std(values, ddof=1)) * math.sqrt(part / (1 - part))
    return value - reach, value + reach
