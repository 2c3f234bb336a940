"""Can π be known? Only where a region of the scores holds positives alone; elsewhere P and U give an upper bound."""

from dataclasses import replace

import numpy as np

from pucl.numerics.auc import auc
from pucl.priors import PriorEstimate
from pucl.priors.adjusted_count import adjusted_count, negatives_look_random
from pucl.priors.bbe import bbe
from pucl.ranking.bags import Bools, Floats, Rows
from pucl.ranking.purity import may_be_pure, told_apart

REPLICATES, MAX_ROWS = 60, 20_000  # of the bootstrap, and rows of P and of U in it
LOW, HIGH = 0.05, 0.95  # quantiles of the replicates
FEWEST = 50  # labelled rows below which nothing shows that the classes separate
CLEAR_AUC = 0.9  # of P against the negatives that π_low implies, one standard error taken off
CLEAR_RECALL, CLEAR_PRECISION = 0.8, 0.8  # of which P's tail is looked at, and what π_low implies there
ALLOWANCE = 0.9  # of π_low: the low end that is reported, for negatives that look like positives everywhere


def plausible_share(
    score: Floats,
    labelled: Bools,
    estimate: PriorEstimate | None = None,
    *,
    rows: Rows | None = None,
    seed: int = 0,
    negative: Bools | None = None,
) -> PriorEstimate:
    """π as an estimate with its interval where the scores separate the classes, otherwise as an upper bound.

        ρ(c) = q_U(c) / q_P(c) = π + (1 − π) q_N(c) / q_P(c) ≥ π

    where q(c) is the share of scores at c or above, and N are the negatives in U. Without negatives nobody knows q_N:
    the smallest ρ is all that P and U say of π, and it is π itself only if some c has positives alone above it. BBE
    takes that smallest ρ; [π_low, π_high] is its interval, see `smallest_ratio`.

    The scores *separate* if the smallest plausible share already explains nearly all of P:

        (AUC_PU − σ − π_low/2) / (1 − π_low) ≥ 0.9    and    π_low / ρ(c_0.8) ≥ 0.8

    where the left side of the first is the AUC of P against the negatives that π_low implies, one standard error σ
    taken off, and the second the precision that π_low implies where 80 % of P lie above c. Fewer than 50 labelled rows
    cannot show it. Besides, P and U must be alike among the high scores, see `told_apart`. Then the answer is an
    estimate. Otherwise it is a bound: π ≤ π_high, and any smaller share fits the data as well.

    Nothing can rule out that negatives look like positives everywhere; scores that separate make it unlikely, not
    impossible. On tables and images with known truth π was up to a quarter below π_low where this was so, so that the
    reported interval starts at 0.9 π_low (LOG.md).

    Confirmed negatives show q_N. Where they may be a random sample of all negatives, π is known however much the
    classes overlap, and the answer is that of `adjusted_count`.

    Args:
        score: of every row (n,), from models that did not see it.
        labelled: s, (n,).
        estimate: π̂ from the same scores, to be kept with its method where they separate; BBE's when not given.
        rows: finite features (n, d), to see whether P and U are alike among the high scores; not looked at when not
            given.
        seed: of whatever is drawn.
        negative: confirmed negatives, (n,).
    """
    draw, free = np.random.default_rng(seed), ~labelled if negative is None else ~(labelled | negative)
    kept = labelled | free
    p, u = (_some(np.sort(score[kind]), draw) for kind in (labelled, free))  # the order of rows must not matter
    if negative is not None and negatives_look_random(p, u, score[negative], seed=seed):
        return adjusted_count(p, u, score[negative], confidence=HIGH - LOW, seed=seed)
    value, low, high = smallest_ratio(p, u, draw)
    known = PriorEstimate(value, low, high, "bbe") if estimate is None else estimate
    if separates(p, u, low) and (rows is None or not told_apart(rows[kept], score[kept], labelled[kept], seed=seed)):
        return replace(known, low=min(ALLOWANCE * low, known.value), high=max(high, known.value), is_bound=False)
    return PriorEstimate(high, 0.0, high, known.method, is_bound=True)


def smallest_ratio(p: Floats, u: Floats, draw: np.random.Generator) -> tuple[float, float, float]:
    """BBE's smallest ratio of tails π̂ of scores of P and of U, and the ends of its interval, which is to hold π.

        π_low = q_5,    π_high = max(q_95, π̂ / 0.05^(1/n_P)) + 2 max(0, π̂ − q_50)

    where q are quantiles, in percent, over samples drawn again from P and from U. These never hold positives below the
    lowest of P: if less than a share 0.05^(1/n_P) of the positives lay above BBE's cut, all of P would do so in less
    than 5 % of cases. And the smallest of many ratios is rather too small: in samples drawn again by as much as q_50 is
    below π̂, and π̂ itself by about as much. The last term makes up for both, where π may be close to the smallest ratio:
    where P and U may be alike at high scores (`may_be_pure`). Elsewhere π is well below it, and nothing is added.
    """
    value = bbe(p, u).value
    again = [bbe(draw.choice(p, len(p)), draw.choice(u, len(u))).value for _ in range(REPLICATES)]
    low, middle, high = (float(q) for q in np.quantile([*again, value], [LOW, 0.5, HIGH]))
    too_small = max(0.0, value - middle) if may_be_pure(p, u) else 0.0
    return value, low, min(1.0, max(high, value / LOW ** (1 / len(p))) + 2 * too_small)


def classes_separate(score: Floats, labelled: Bools, aside: Bools | None, *, seed: int) -> bool:
    """Whether P and U alone show that the scores separate the classes.

    Confirmed negatives are set `aside`, as are all rows outside of P and U: they make π known, see `plausible_share`,
    even where the scores tell nothing apart.
    """
    kept = slice(None) if aside is None else ~aside
    return not plausible_share(score[kept], labelled[kept], seed=seed).is_bound


def separates(p: Floats, u: Floats, low: float) -> bool:
    """Whether a share of at least `low` explains nearly all of P; the formulae are in `plausible_share`."""
    if low >= 1 or len(p) < FEWEST:
        return False
    area, error = auc(p, u)
    clear = (area - error - low / 2) / (1 - low) >= CLEAR_AUC
    cut = np.quantile(p, 1 - CLEAR_RECALL, method="lower")
    above = float((u >= cut).mean()) / float((p >= cut).mean())
    return clear and (above == 0 or low / above >= CLEAR_PRECISION)


def _some(score: Floats, draw: np.random.Generator) -> Floats:
    return score if len(score) <= MAX_ROWS else draw.choice(score, MAX_ROWS, replace=False)
