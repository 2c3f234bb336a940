"""Best bin estimation: the cleanest upper bin of a P-against-U score tells how much of U is positive."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pucl.errors import check_positive, check_share, unknown_name
from pucl.priors import PriorEstimate
from pucl.priors.samples import check_scores
from pucl.registry import register

CUTS = ("positive", "unlabelled")
DELTA, SLACK = 0.1, 0.01  # by default


@register("priors", reference="Garg et al. 2021, algorithm 1", inputs=("score",))
def bbe(
    positive: Any,
    unlabelled: Any,
    *,
    delta: float = DELTA,
    slack: float = SLACK,
    cuts: Literal["positive", "unlabelled"] = "positive",
    confidence: float = 0.9,
) -> PriorEstimate:
    """The ratio of tail masses at the threshold with the lowest upper confidence bound.

        q_P(c) = |{i ∈ P : f_i ≥ c}| / n_P,   q_U(c) likewise
        π̂ = q_U(ĉ) / q_P(ĉ),   ĉ = argmin_c  q_U(c)/q_P(c) + (1 + slack)/q_P(c) · w(δ)
        w(δ) = √(log(4/δ) / 2n_U) + √(log(4/δ) / 2n_P)

    where f is any score that ranks positives above negatives, taken on rows that did not train it. The interval is
    π̂ ± w(1 − confidence) / q_P(ĉ), clipped to [0, 1].

    Args:
        positive: scores of labelled positives (n_P,).
        unlabelled: scores of unlabelled rows (n_U,).
        delta: δ, of the bound that chooses the bin.
        slack: the margin added to the width when choosing the bin.
        cuts: where c is tried. Between two scores of P only q_U changes, so the minimum over all c lies at a score of
            P; ``"unlabelled"`` tries the scores of U instead, as the published algorithm counts.
        confidence: of the interval.
    """
    p, u = (torch.from_numpy(scores) for scores in check_scores("bbe", positive, unlabelled))
    return best_bin(p, u, delta=delta, slack=slack, cuts=cuts, confidence=confidence)


def best_bin(
    p: Tensor, u: Tensor, *, delta: float = DELTA, slack: float = SLACK, cuts: str = CUTS[0], confidence: float = 0.9
) -> PriorEstimate:
    """`bbe` of finite scores of P (n_P,) and of U (n_U,), computed on the device that holds them."""
    if cuts not in CUTS:
        raise unknown_name("cuts of bbe", cuts, CUTS)
    check_share("bbe", "delta", delta)
    check_share("bbe", "confidence", confidence)
    check_positive("bbe", "slack", slack)
    p, u = p.sort().values, u.sort().values
    at = p if cuts == "positive" else u[u <= p[-1]]
    if len(at) == 0:  # all of U above all of P: nothing of U can be told from P
        at = p
    q_p, q_u = (1 - torch.searchsorted(scores, at).to(torch.float64) / len(scores) for scores in (p, u))
    bound = (q_u + (1 + slack) * _width(delta, len(p), len(u))) / q_p
    best = (bound == bound.min()).nonzero()[0]  # the first of equals, on any device
    part_of_p, part_of_u = torch.cat([q_p[best], q_u[best]]).tolist()
    value, reach = part_of_u / part_of_p, _width(1 - confidence, len(p), len(u)) / part_of_p
    low, high = (min(max(end, 0.0), 1.0) for end in (value - reach, value + reach))
    return PriorEstimate(min(value, 1.0), low, high, "bbe")


def _width(delta: float, n_p: int, n_u: int) -> float:
    """How far empirical tails of P and of U can be off everywhere at once (Dvoretzky, Kiefer and Wolfowitz)."""
    return float(np.sqrt(np.log(4 / delta) / (2 * n_u)) + np.sqrt(np.log(4 / delta) / (2 * n_p)))
