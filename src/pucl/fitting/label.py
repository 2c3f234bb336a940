"""Labelling: pseudo-labels of all rows, and what is known of π: a number, an estimate with its interval, or a bound."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pucl.fitting.compare import Candidate, Comparison
from pucl.fitting.plan import AUTO, FitPlan
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.columns import share_at_gap
from pucl.ranking.prior import estimate_prior
from pucl.ranking.separability import plausible_share
from pucl.ranking.thresholds import inside_unit_interval
from pucl.registry import entries

GIVEN = "given"  # the method of a π that the user gave


@dataclass(frozen=True)
class Labels:
    """What is known of π, and pseudo-labels.

    Attributes:
        prior: π with its interval, or a bound.
        pseudo: pseudo-labels; their own π is the share they were made with.
    """

    prior: PriorEstimate
    pseudo: PseudoLabels


def label(plan: FitPlan, comparison: Comparison) -> Labels:
    """Pseudo-labels of all rows by the chosen candidate, with π given, from an estimator, or the candidate's own.

    A π that was not given is an estimate only where the out-of-fold scores separate the classes, and a bound otherwise,
    see `plausible_share`.
    """
    plan.progress("labelling", 0.9)
    candidate, averaged = comparison.chosen.candidate, comparison.averaged
    if averaged is not None:
        score = torch.from_numpy(averaged.logits)
        known = _asked(plan, torch.sigmoid(score), candidate) or share_of(score, plan)
        prior = inside_unit_interval(known.value, plan.n_unlabelled)
        pseudo = PseudoLabels.from_scores(score, plan.labelled, prior=prior)
        return Labels(_reported(plan, pseudo, replace(known, value=prior)), pseudo)
    everyone = torch.ones_like(plan.labelled)
    asked = _asked(plan, None, candidate)
    told = None if asked is None else inside_unit_interval(asked.value, plan.n_unlabelled)
    pseudo = candidate.label(everyone, plan.labelled, prior=told, seed=plan.options.seed, quick=False)
    if asked is None:
        share = inside_unit_interval(pseudo.prior, plan.n_unlabelled)
        low, high = pseudo.interval or (0.0, 1.0)
        asked = PriorEstimate(share, min(low, share), max(high, share), candidate.labeller)
    return Labels(_reported(plan, pseudo, replace(asked, value=told or asked.value)), pseudo)


def share_of(score: Tensor, plan: FitPlan) -> PriorEstimate:
    """π̂ from out-of-sample scores by BBE, moved to a gap."""
    return PriorEstimate.point(share_at_gap(score[plan.free], plan.labelled[plan.free]), "bbe")


def _asked(plan: FitPlan, probability: Tensor | None, candidate: Candidate) -> PriorEstimate | None:
    """π as the user gave it, or by the estimator that the user named, from probabilities or from the embedding."""
    if plan.prior is not None:
        return PriorEstimate(plan.prior, plan.prior, plan.prior, GIVEN)
    name = plan.options.prior
    if not isinstance(name, str):
        return None
    unseen = plan.free if candidate.seen_by_encoder is None else plan.free & ~candidate.seen_by_encoder
    of_points = name != AUTO and "vector" in entries("priors")[name].inputs
    rows = candidate.z if probability is None or of_points else probability
    return estimate_prior(rows[unseen], plan.labelled[unseen], method=name, seed=plan.options.seed)


def _reported(plan: FitPlan, pseudo: PseudoLabels, estimate: PriorEstimate) -> PriorEstimate:
    """The estimate where the scores separate the classes, a bound where they do not; as it is where π was given.

    Labellers without scores, such as puPL, cannot tell: their π̂ is a bound, too, with the end of its interval.
    """
    if estimate.method == GIVEN:
        return estimate
    if pseudo.score is None:
        return PriorEstimate(estimate.high, 0.0, estimate.high, estimate.method, is_bound=True)
    known = plan.free & pseudo.score.isfinite().cpu()
    score = pseudo.score.cpu()[known].double().numpy()
    return plausible_share(score, plan.labelled[known].numpy(), estimate, seed=plan.options.seed)
