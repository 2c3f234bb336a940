"""Targets within [0, 1] and weights of the rows for fine-tuning, (n,) each: fixed, renewed or moving."""

import torch
import torch.nn.functional as F
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


def first_labels(labelled: Tensor, pseudo: PseudoLabels) -> Tensor:
    """What moving labels start from: probabilities of the unlabelled rows, 1 of labelled ones, 0 of negatives."""
    known = labelled.to(torch.float32)
    return torch.where(pseudo.unlabelled(labelled), pseudo.probability.to(torch.float32), known)


def moved_labels(label: Tensor, towards: Tensor, share: Tensor | float, free: Tensor) -> Tensor:
    """Labels of the rows that are `free` to move, by a share of their way towards others; the rest stays."""
    return torch.where(free, label.lerp(towards.to(label.dtype), share), label)


def nearest_is_positive(k: Tensor, prototypes: Tensor) -> Tensor:
    """Whether the prototype of the positives is nearer than that of the negatives, (n,) bool; rows are normalised."""
    return k @ (prototypes[1] - prototypes[0]) > 0


def followed_prototypes(prototypes: Tensor, k: Tensor, positive: Tensor, momentum: float) -> Tensor:
    r"""Prototypes of the negatives and the positives, (2, d), after a batch of normalised rows k (n, d).

        μ_c ← normalise(γ μ_c + (1 − γ) normalise(Σ_{i ∈ c} k_i))

    where γ is the momentum. A class without a row in the batch keeps its prototype.
    """
    inside = torch.stack([~positive, positive]).to(k.dtype)
    moved = F.normalize(prototypes.lerp(F.normalize(inside @ k, dim=1), 1 - momentum), dim=1)
    return torch.where(inside.any(dim=1, keepdim=True), moved, prototypes)


def targets_of_step(label: Tensor, probability: Tensor, free: Tensor, threshold: float) -> Tensor:
    """Labels for one step: rows that are free and whose probability is below the threshold are negative."""
    return label.masked_fill(free & (probability < threshold), 0.0)
