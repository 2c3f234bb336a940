"""Targets within [0, 1] and weights of the rows for each epoch of fine-tuning, (n,) each."""

import torch
from torch import Tensor

from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.thresholds import threshold_for_share


def confident_rows(labelled: Tensor, pseudo: PseudoLabels, share: float) -> Tensor:
    """The labelled and confirmed rows and the most reliable `share` of the unlabelled ones of each class, in order.

    Taken class by class, so that the share of positives among the rows stays that of the pseudo-labels.
    """
    unlabelled = pseudo.unlabelled(labelled)
    chosen = [(~unlabelled).nonzero().flatten()]
    for value in (True, False):
        members = (unlabelled & (pseudo.labels == value)).nonzero().flatten()
        surest = pseudo.reliability[members].argsort(descending=True, stable=True)
        chosen.append(members[surest[: round(share * len(members)) or min(1, len(members))]])
    return torch.cat(chosen).sort().values


def fixed_targets(pseudo: PseudoLabels, *, soft: bool, weighted: bool) -> tuple[Tensor, Tensor]:
    """Targets that stay: the pseudo-labels and their reliability, or probabilities."""
    if soft:
        return pseudo.probability.to(torch.float32), torch.ones_like(pseudo.probability, dtype=torch.float32)
    goal = pseudo.labels.to(torch.float32)
    return goal, pseudo.reliability.to(torch.float32) if weighted else torch.ones_like(goal)


def renewed_targets(
    score: Tensor | None, labelled: Tensor, pseudo: PseudoLabels, *, trust: float, labelled_share: float
) -> tuple[Tensor, Tensor]:
    """Targets of an epoch from the logits of the rows, in the first epoch from the pseudo-labels.

    Likely positives have the weight `trust`.

    `labelled_share` is that of the labelled rows in the batches.
    """
    likely = pseudo.labels
    if score is not None:
        likely = score > threshold_for_share(score[pseudo.unlabelled(labelled)], pseudo.prior)
        likely = likely if pseudo.negative is None else likely & ~pseudo.negative
    weight = torch.where(likely, trust, 1.0)
    share = float(labelled.float().mean())
    # The weight of P relative to U, corrected for their shares in the batches.
    weight[labelled] = ((1 - trust) * pseudo.prior + trust * share) * (1 - labelled_share) / labelled_share
    return (labelled | likely).to(torch.float32), weight
