"""Rows that a reviewer has answered because a model had picked them: they train, but count as unlabelled rows.

Such rows are no random sample. If "most likely positive" rows that were called positive left U or joined P, every
figure that rests on counting would be wrong. So they stay part of U wherever rows are counted (π, scores, thresholds,
calibration), and only rankers and heads learn from the answers. Where U is a random sample of a larger file, answered
rows that were not drawn teach, too, and are no part of U (`FitPlan.extra`).
"""

from dataclasses import replace

import torch

from pucl.fitting.plan import FitPlan
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.share import share_of, with_interval
from pucl.ranking.thresholds import inside_unit_interval


def share_of_rest(plan: FitPlan, share: float | None) -> float | None:
    """π among the rows of U that nobody has answered, from that of all of U; from `plan.share` when not given.

        π_rest = (π n_U − n_yes) / (n_U − n_yes − n_no)

    where n_yes and n_no count the answers to rows of U; half a row inside (0, 1). Labellers need it: an estimate from
    answered rows, of which those called positive score highest, would be far too low.
    """
    if plan.answered is None:
        return share
    share = plan.share if share is None else share
    if share is None:
        return None
    of_u = plan.answered[plan.unlabelled]
    yes, no = int((of_u > 0).sum()), int((of_u < 0).sum())
    rest = plan.n_unlabelled - yes - no
    return inside_unit_interval((share * plan.n_unlabelled - yes) / rest, rest)


def with_answers(plan: FitPlan, pseudo: PseudoLabels) -> PseudoLabels:
    """The pseudo-labels as heads learn from them: every answered row as the reviewer called it.

    `negative` has the rows called negative, too, and `prior` is the share among the rows that nobody has answered.
    """
    share = share_of_rest(plan, pseudo.prior)
    if plan.answered is None or share is None:
        return pseudo
    said, yes = plan.answered.to(pseudo.labels.device) != 0, plan.answered.to(pseudo.labels.device) > 0
    one = torch.ones_like(pseudo.probability)
    negative = plan.train_negative
    return replace(
        pseudo,
        prior=share,
        labels=torch.where(said, yes, pseudo.labels),
        probability=torch.where(said, yes.to(one.dtype), pseudo.probability),
        reliability=torch.where(said, one.to(pseudo.reliability.dtype), pseudo.reliability),
        negative=None if negative is None else negative.to(pseudo.labels.device),
    )


def counted_without_answers(plan: FitPlan, pseudo: PseudoLabels, share: float | None, labeller: str) -> PseudoLabels:
    """The pseudo-labels of a labeller that took answers for labels, with π̂ counted on P and U as they were sampled.

    Args:
        plan: which rows are labelled, and which answered.
        pseudo: of a labeller that was given P and N with the answers.
        share: π where it is known; counted from the labeller's scores otherwise.
        labeller: its name.
    """
    if plan.answered is None:
        return pseudo
    score, negative = pseudo.score, plan.negative
    if score is None:  # a labeller without scores, such as puPL: its share of the answered rows is what was said
        labels = pseudo.labels[plan.unlabelled]
        return replace(pseudo, prior=float(labels.float().mean()), interval=None, negative=negative)
    known = score.isfinite().cpu() & plan.counted
    s, of_n = plan.labelled[known], None if negative is None else negative[known]
    interval = None
    if share is None:
        share = share_of(score.cpu()[known], s, of_n)
        estimate = with_interval(labeller, share, score.cpu()[known], s, negative=of_n)
        interval = (estimate.low, estimate.high)
    counted = PseudoLabels.from_scores(score.cpu()[known], s, prior=share, interval=interval, negative=of_n)
    whole = counted if bool(known.all()) else counted.spread(known)
    return whole.to(pseudo.labels.device)
