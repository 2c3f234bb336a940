"""Calibration of the chosen head: its temperature, and the threshold above which a row is called positive."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from pucl.fitting.compare import Judged
from pucl.fitting.label import Labels
from pucl.fitting.plan import FitPlan
from pucl.fitting.tune import Classifier
from pucl.heads.calibration import Calibrated, fit_temperature
from pucl.ranking.operating import expected_f1_threshold, recall_of_others
from pucl.ranking.thresholds import inside_unit_interval, threshold_for_share


def calibrate_head(plan: FitPlan, labels: Labels, classifier: Classifier, judged: Judged) -> tuple[Calibrated, Judged]:
    """The calibrated head, and the out-of-fold logits with the same threshold at 0.

    A π that the user gave or named also decides how many rows are called positive. Averaged rankers have no threshold
    of their own: theirs has the highest F1 on average over the plausible shares, see `expected_f1_threshold`. Any other
    head keeps its own. All of this is counted on P and U; confirmed negatives are left out.
    """
    share = inside_unit_interval(labels.share, plan.n_unlabelled)  # a ranker's π̂ may be 0
    if plan.options.prior is not None:
        judged = at_share(judged, plan.unlabelled, share)
        rows = plan.rows if classifier.comparison.averaged is not None else classifier.z
        return calibrated(classifier.head, judged, plan, share, cut_on=rows[plan.unlabelled]), judged
    if classifier.comparison.averaged is None:
        return calibrated(classifier.head, judged, plan, share), judged
    known = judged.rows & plan.in_p_or_u.numpy()
    score, labelled = judged.logits[known], plan.labelled.numpy()[known]
    threshold = expected_f1_threshold(score, labelled, labels.prior)
    recall = recall_of_others(score, labelled, labels.prior)
    judged = replace(judged, logits=judged.logits - threshold, recall=recall)
    return calibrated(classifier.head, judged, plan, share, threshold=threshold), judged


def calibrated(
    head: nn.Module,
    judged: Judged,
    plan: FitPlan,
    prior: float,
    *,
    cut_on: Tensor | None = None,
    threshold: float = 0.0,
) -> Calibrated:
    """The head at the temperature that fits the logits of held-out rows of P and U, with its threshold at 0.

    Args:
        head: what is calibrated.
        judged: logits of held-out rows, with the threshold at 0.
        plan: which rows are labelled, and which are confirmed negatives.
        prior: π.
        cut_on: what the head takes of the unlabelled rows; with it, the threshold is where a share π of them lies
            above. That is for a known π; for an estimate the head's own threshold is as good.
        threshold: of the head's logits otherwise.
    """
    rows = torch.from_numpy(judged.rows) & plan.in_p_or_u
    seen, temperature = plan.labelled[rows], 1.0
    if seen.any() and not seen.all():
        temperature = fit_temperature(torch.from_numpy(judged.logits)[rows], seen, prior)
    if cut_on is not None:
        with torch.no_grad():
            threshold = float(threshold_for_share(head(cut_on), prior))
    return Calibrated(head, shift=-threshold / temperature, temperature=temperature)


def at_share(judged: Judged, unlabelled: Tensor, prior: float) -> Judged:
    """The logits shifted so that a share π of the unlabelled rows is positive."""
    of_u = torch.from_numpy(judged.logits[judged.rows & unlabelled.numpy()])
    return replace(judged, logits=judged.logits - float(threshold_for_share(of_u, prior))) if len(of_u) > 1 else judged
