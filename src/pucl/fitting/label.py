"""Labelling: pseudo-labels of all rows, and π with the interval that the same method gives."""

from dataclasses import dataclass, replace

import torch

from pucl.fitting.compare import Candidate
from pucl.fitting.plan import FitPlan
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.prior import estimate_prior
from pucl.ranking.thresholds import inside_unit_interval


@dataclass(frozen=True)
class Labels:
    """π and the pseudo-labels made with it."""

    prior: PriorEstimate
    pseudo: PseudoLabels


def label(plan: FitPlan, candidate: Candidate) -> Labels:
    """Pseudo-labels of all rows by the candidate's labeller, with π given, from an estimator, or the labeller's own.

    π and its interval come from the estimator that the user named, otherwise from the labeller; a labeller without an
    interval leaves it open: 0 to 1.
    """
    plan.progress("labelling", 0.9)
    everyone, seed, n_u = torch.ones_like(plan.labelled), plan.options.seed, int((~plan.labelled).sum())

    def by_labeller(prior: float | None) -> PseudoLabels:
        return candidate.label(everyone, plan.labelled, prior=prior, seed=seed, quick=False)

    if plan.prior is not None:
        return Labels(PriorEstimate(plan.prior, plan.prior, plan.prior, "given"), by_labeller(plan.prior))
    if isinstance(plan.options.prior, str):
        unseen = everyone if candidate.seen_by_encoder is None else ~candidate.seen_by_encoder
        estimate = estimate_prior(candidate.z[unseen], plan.labelled[unseen], method=plan.options.prior, seed=seed)
        estimate = replace(estimate, value=inside_unit_interval(estimate.value, n_u))
        return Labels(estimate, by_labeller(estimate.value))
    pseudo = by_labeller(None)
    share = inside_unit_interval(pseudo.prior, n_u)
    low, high = pseudo.interval or (0.0, 1.0)
    return Labels(PriorEstimate(share, min(low, share), max(high, share), candidate.labeller), pseudo)
