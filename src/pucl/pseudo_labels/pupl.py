"""puPL, algo:puPL: two-means on the embedding, one centre anchored at the labelled positives."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import check_count
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register


@register("pseudo-labellers", reference="algo:puPL")
def pupl(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    seed: int = 0,
    guard: bool = False,
    max_iter: int = 300,
) -> PseudoLabels:
    """Two-means started at the mean of the labelled rows, which stay positive.

        μ_P = mean of Z_P,   μ_N ~ Z_U with probability ∝ ‖z − μ_P‖²
        repeat:  ỹ_i = 1[‖z_i − μ_P‖² < ‖z_i − μ_N‖²] for i ∈ U,   μ_P, μ_N ← means of the rows with ỹ = 1, ỹ = 0

    where Z_P and Z_U are the L2-normalised embeddings of the labelled and unlabelled rows. It needs each class to be
    one cluster: on classes of several modes the two means follow the largest gap, whatever the labels say.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: not used; the algorithm needs none.
        seed: of the draw of μ_N.
        guard: apply `orientation_guard` to the centres found. Off by default: the paper has no such step.
        max_iter: most Lloyd iterations.
    """
    del prior
    check_count("pupl", "max_iter", max_iter)
    rows = F.normalize(z, dim=1)
    centres = _seed_centres(rows, labelled, Generator().manual_seed(seed))
    positive = labelled.clone()
    for _ in range(max_iter):
        nearer = _nearer_to_first(rows, centres) | labelled
        if torch.equal(nearer, positive) or not (~nearer).any():
            break
        positive = nearer
        centres = torch.stack([rows[positive].mean(dim=0), rows[~positive].mean(dim=0)])
    if guard:
        centres = orientation_guard(rows, labelled, centres)
    gap = (rows - centres[1]).pow(2).sum(1) - (rows - centres[0]).pow(2).sum(1)
    probability = torch.sigmoid(gap / gap.abs().mean().clamp(min=1e-12))
    return PseudoLabels.from_probability(probability, labelled)


def orientation_guard(rows: Tensor, labelled: Tensor, centres: Tensor) -> Tensor:
    """The centres in the order that suits the labelled rows: most of them nearer to the first.

    Nothing in algo:puPL keeps μ_P near the labelled positives once Lloyd's iterations run; on about one seed in five
    it ends at the negatives and every pseudo-label is inverted.

    Args:
        rows: L2-normalised embeddings (n, k).
        labelled: s, (n,) bool.
        centres: μ_P and μ_N, (2, k).
    """
    upright = _nearer_to_first(rows[labelled], centres).float().mean() >= 0.5
    return centres if upright else centres.flip(0)


def _seed_centres(rows: Tensor, labelled: Tensor, generator: Generator) -> Tensor:
    """μ_P, the mean of P, and μ_N, drawn from U with D² weights."""
    positive = rows[labelled].mean(dim=0)
    unlabelled = rows[~labelled]
    distance = (unlabelled - positive).pow(2).sum(dim=1)
    pick = torch.multinomial(distance.cpu().clamp(min=1e-30), 1, generator=generator)
    return torch.stack([positive, unlabelled[int(pick)]])


def _nearer_to_first(rows: Tensor, centres: Tensor) -> Tensor:
    """Whether each row is strictly nearer to the first centre, (n,) bool."""
    # ‖z − a‖² < ‖z − b‖²  ⇔  2 z·(b − a) < ‖b‖² − ‖a‖²
    first, second = centres
    return torch.lt(2 * rows @ (second - first), second.pow(2).sum() - first.pow(2).sum())
