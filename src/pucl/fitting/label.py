"""Labelling: pseudo-labels of all rows, and what is known of π: a number, an estimate with its interval, or a bound."""

import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pucl.errors import RunWarning, users_line
from pucl.fitting.answered import counted_without_answers, share_of_rest, with_answers
from pucl.fitting.compare import Candidate, Comparison
from pucl.fitting.plan import AUTO, FitPlan
from pucl.priors import PriorEstimate
from pucl.priors.adjusted_count import NAME as COUNTED
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.columns import share_at_gap
from pucl.ranking.prior import estimate_prior, not_random
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
        share: π as one number: given, by the estimator that the user named, or that of the pseudo-labels.
    """

    prior: PriorEstimate
    pseudo: PseudoLabels
    share: float


def label(plan: FitPlan, comparison: Comparison) -> Labels:
    """Pseudo-labels of all rows by the chosen candidate, with π given, from an estimator, or the candidate's own.

    A π that was not given is an estimate where the out-of-fold scores separate the classes, or where confirmed
    negatives may be a random sample of all negatives, and a bound otherwise, see `plausible_share`.
    """
    plan.progress("labelling")
    candidate, averaged = comparison.chosen.candidate, comparison.averaged
    if averaged is not None:
        score = torch.from_numpy(averaged.logits)
        known = _inside(plan, _asked(plan, torch.sigmoid(score), candidate) or share_of(score, plan))
        reported = _reported(plan, candidate.z, score, known)
        share = reported.value if reported.method == COUNTED else known.value
        aside = None if plan.aside is None else torch.from_numpy(plan.aside)
        pseudo = PseudoLabels.from_scores(score, plan.labelled, prior=share, negative=aside)
        return Labels(reported, with_answers(plan, pseudo), share)
    everyone = torch.ones_like(plan.labelled)
    asked = _asked(plan, None, candidate)
    given = None if asked is None else _inside(plan, asked).value
    pseudo = candidate.label(
        everyone, plan.train_positive, prior=share_of_rest(plan, given), seed=plan.options.seed,
        negative=plan.train_negative, quick=False,
    )  # fmt: skip
    pseudo = counted_without_answers(plan, pseudo, given, candidate.labeller)
    if asked is None:
        asked = PriorEstimate(pseudo.prior, *(pseudo.interval or (0.0, 1.0)), candidate.labeller)
    share = pseudo.prior if given is None else given  # puPL has a share of its own, whatever it is given
    reported = _reported(plan, candidate.z, pseudo.score, _inside(plan, asked))
    return Labels(reported, with_answers(plan, pseudo), share)


def share_of(score: Tensor, plan: FitPlan) -> PriorEstimate:
    """π̂ from out-of-sample scores of P and U by BBE, moved to a gap."""
    return PriorEstimate.point(share_at_gap(score[plan.in_p_or_u], plan.labelled[plan.in_p_or_u]), "bbe")


def _asked(plan: FitPlan, probability: Tensor | None, candidate: Candidate) -> PriorEstimate | None:
    """π as the user gave it, or by the estimator that the user named, from probabilities or from the embedding."""
    if plan.prior is not None:
        return PriorEstimate(plan.prior, plan.prior, plan.prior, GIVEN)
    name = plan.options.prior
    if not isinstance(name, str):
        return None
    unseen = plan.counted if candidate.memorised_rows is None else plan.counted & ~candidate.memorised_rows
    of_points = name != AUTO and "vector" in entries("priors")[name].inputs
    rows = candidate.z if probability is None or of_points else probability
    negatives = None if plan.negative is None else plan.negative[unseen]
    return estimate_prior(rows[unseen], plan.labelled[unseen], method=name, negatives=negatives, seed=plan.options.seed)


def _reported(plan: FitPlan, z: Tensor, score: Tensor | None, estimate: PriorEstimate) -> PriorEstimate:
    """The estimate where the scores separate the classes, a bound where they do not; as it is where π was given.

    With confirmed negatives that may be a random sample, the estimate by adjusted counting on these scores, unless the
    user named an estimator; a warning where they cannot be one. Labellers without scores, such as puPL, cannot tell:
    their π̂ is a bound, too, with the end of its interval.
    """
    if estimate.method == GIVEN:
        return estimate
    if score is None:
        return PriorEstimate(estimate.high, 0.0, estimate.high, estimate.method, is_bound=True)
    asked, seed = plan.options.prior, plan.options.seed
    negative = plan.negative if asked in (None, AUTO) else None
    known = score.isfinite().cpu() & (plan.in_p_or_u if negative is None else plan.counted)
    reported = plausible_share(
        score.cpu()[known].double().numpy(), plan.labelled[known].numpy(), estimate,
        rows=z.cpu()[known].float().numpy(), seed=seed, negative=None if negative is None else negative[known].numpy(),
    )  # fmt: skip
    if negative is not None and asked is None and reported.method != COUNTED:
        warnings.warn(not_random(int(negative.sum())), RunWarning, stacklevel=users_line())
    return _inside(plan, reported) if reported.method == COUNTED else reported


def _inside(plan: FitPlan, estimate: PriorEstimate) -> PriorEstimate:
    """The estimate kept inside (0, 1), half a row of U from either end, and its interval around it."""
    share = inside_unit_interval(estimate.value, plan.n_unlabelled)
    return replace(estimate, value=share, low=min(estimate.low, share), high=max(estimate.high, share))
