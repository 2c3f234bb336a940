"""Elkan and Noto's estimator: how large the score is on average over U, against its average over P."""

from typing import Any

from pucl.priors import PriorEstimate
from pucl.priors.samples import check_scores
from pucl.registry import register


@register("priors", reference="Elkan & Noto 2008, estimator e1", inputs=("probability",))
def elkan_noto(positive: Any, unlabelled: Any) -> PriorEstimate:
    """The mean score of U divided by the mean score of P; too high wherever the classes overlap.

        π̂ = (Σ_{i ∈ U} f_i / n_U) / (Σ_{i ∈ P} f_i / n_P)

    where f is the probability of being labelled. It is exact when f vanishes on negatives; whatever f gives to
    negatives is counted as positive.

    Args:
        positive: probabilities of labelled positives (n_P,).
        unlabelled: probabilities of unlabelled rows (n_U,).
    """
    p, u = check_scores("elkan_noto", positive, unlabelled, probability=True)
    # P scored zero throughout says nothing: everything in U may be positive.
    return PriorEstimate.point(u.mean() / p.mean() if p.any() else 1.0, "elkan_noto")
