"""puPL, algo:puPL: two-means on the embedding, one centre anchored at the labelled positives."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.distributed import gather, rank_and_world, total
from pucl.errors import check_count, unknown_name
from pucl.pseudo_labels.assign import BACKENDS, Sides, margin
from pucl.pseudo_labels.outcome import PseudoLabels
from pucl.ranking.rows import unlabelled_rows
from pucl.registry import register

MEANS = "means"
GATHERED = 1 << 14  # rows gathered at a time


@dataclass(frozen=True)
class TwoMeans:
    """Two centres, who is on the first's side (labelled rows always are), and what they explain of Σ_i ‖z_i‖²."""

    centres: Tensor
    positive: Tensor
    explained: float
    iterations: int


@register("pseudo-labellers", reference="algo:puPL")
def pupl(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    n_init: int = 1,
    guard: bool = False,
    start: Literal["means"] | None = None,
    max_iter: int = 300,
    backend: Literal["torch", "faiss"] = "torch",
) -> PseudoLabels:
    """Two-means started at the mean of the labelled rows, which stay positive.

        μ_P = mean of Z_P,   μ_N ~ Z_U with probability ∝ ‖z − μ_P‖²
        repeat:  ỹ_i = 1[‖z_i − μ_P‖² < ‖z_i − μ_N‖²] for i ∈ U,   μ_P, μ_N ← means of the rows with ỹ = 1, ỹ = 0

    where Z_P and Z_U are the L2-normalised embeddings of the labelled and unlabelled rows. It needs each class to be
    one cluster: on classes of several modes the two means follow the largest gap, whatever the labels say. Over several
    processes each holds its own rows, and the centres are those of all. With confirmed negatives, which the paper does
    not have, μ_N starts at their mean, and they stay negative.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: not used; the algorithm needs none.
        negative: confirmed negatives, (n,) bool.
        seed: of the draws of μ_N.
        n_init: draws of μ_N, of which the one that ends at the lowest potential is kept. The paper has one.
        guard: apply `orientation_guard` to the centres found. Off by default: the paper has no such step.
        start: ``"means"`` is plain two-means as in the authors' released code: from the means of P and U, with labelled
            rows free to change sides; the cluster whose centre is nearer to the mean of P is called positive.
        max_iter: most Lloyd iterations.
        backend: what compares the distances: ``"torch"`` on any device, ``"faiss"`` if it is installed.
    """
    del prior
    check_count("pupl", "max_iter", max_iter)
    check_count("pupl", "n_init", n_init)
    if backend not in BACKENDS:
        raise unknown_name("backend of pupl", backend, BACKENDS)
    if start not in (None, MEANS):
        raise unknown_name("start of pupl", start, (MEANS,))
    rows, generator = F.normalize(z, dim=1), Generator().manual_seed(seed)
    if start == MEANS:
        starts, kept = [_two_means(rows, labelled, negative)], torch.zeros_like(labelled)
    else:
        draws = n_init if negative is None else 1
        starts, kept = [seed_centres(rows, labelled, generator, negative) for _ in range(draws)], labelled
    tries = [lloyd(rows, kept, first, max_iter=max_iter, backend=backend, negative=negative) for first in starts]
    centres = max(tries, key=lambda result: result.explained).centres  # the rest of Σ ‖z‖² is the potential
    if start == MEANS and negative is None:
        centres = centres[(centres - _mean_of(rows, labelled)).pow(2).sum(dim=1).argsort()]
    if guard:
        centres = orientation_guard(rows, labelled, centres)
    gap = (rows - centres[1]).pow(2).sum(1) - (rows - centres[0]).pow(2).sum(1)
    probability = torch.sigmoid(gap / _mean_over_all(gap.abs()).clamp(min=1e-12))
    share = _mean_over_all((probability[unlabelled_rows(labelled, negative)] > 0.5).to(rows.dtype))
    return PseudoLabels.from_probability(probability, labelled, prior=float(share), negative=negative)


def seed_centres(rows: Tensor, labelled: Tensor, generator: Generator, negative: Tensor | None = None) -> Tensor:
    """μ_P, the mean of P, and μ_N, drawn from U with D² weights, (2, k); the generator must be the same everywhere.

    With confirmed negatives μ_N is their mean.
    """
    positive = _mean_of(rows, labelled)
    if negative is not None:
        return torch.stack([positive, _mean_of(rows, negative)])
    weight = (rows - positive).pow(2).sum(dim=1).masked_fill(labelled, 0).to(torch.float64)
    # Inverse of the distribution function: any number of rows, the same draw on any number of processes.
    ends = weight.cumsum(0)
    rank, world = rank_and_world()
    shares = gather(ends[-1:])
    below = shares.cumsum(0) - shares
    goal = torch.rand((), generator=generator, dtype=torch.float64).to(rows.device) * shares.sum()
    owner = min(int(torch.searchsorted(below, goal, right=True)) - 1, world - 1)
    pick = min(int(torch.searchsorted(ends, goal - below[rank], right=True)), len(rows) - 1)
    chosen = rows[pick] if rank == owner else torch.zeros_like(rows[0])
    return torch.stack([positive, total(chosen)])


def _two_means(rows: Tensor, labelled: Tensor, negative: Tensor | None) -> Tensor:
    """The means of P and of U, or of the confirmed negatives where there are some, (2, k)."""
    return torch.stack([_mean_of(rows, labelled), _mean_of(rows, ~labelled if negative is None else negative)])


def _mean_of(rows: Tensor, kind: Tensor) -> Tensor:
    """The mean (k,) of the rows marked, over all processes."""
    members = kind.to(rows.dtype)
    sums = total(torch.cat([members @ rows, members.sum()[None]]))
    return sums[:-1] / sums[-1]


def lloyd(
    rows: Tensor,
    labelled: Tensor,
    centres: Tensor,
    *,
    max_iter: int = 300,
    backend: str = "torch",
    negative: Tensor | None = None,
) -> TwoMeans:
    """Iterate from `centres` until no row changes sides; a side is never left empty.

    The potential of what is found is Σ_i ‖z_i − μ(i)‖² = Σ_i ‖z_i‖² − Σ_c (2 μ_c · Σ_{i ∈ c} z_i − n_c ‖μ_c‖²), where
    μ(i) is the centre on row i's side; the last sum is what the centres explain.
    """
    positive, iteration = torch.zeros_like(labelled), 0
    pieces = [piece.sum(dim=0) for piece in torch.split(rows, GATHERED)]
    everything = total(torch.stack(pieces).sum(dim=0, dtype=torch.float64))
    sides = Sides(rows, labelled, backend, negative=negative)
    near = torch.zeros_like(everything)  # Σ of the rows on the first side, kept up to date by those that change sides
    for iteration in range(1, max_iter + 1):
        nearer = sides.of(centres)
        near, counts, changed = _moved(rows, positive, nearer, near)
        positive, sums = nearer, torch.stack([near, everything - near])
        if (changed == 0 and iteration > 1) or float(counts.min()) == 0:
            break
        centres = (sums / counts[:, None]).to(rows.dtype)
    wide = centres.to(torch.float64)
    explained = 2 * (wide * sums).sum() - counts @ wide.pow(2).sum(dim=1)
    return TwoMeans(centres, positive, float(explained), iteration)


def orientation_guard(rows: Tensor, labelled: Tensor, centres: Tensor) -> Tensor:
    """The centres in the order that suits the labelled rows: most of them nearer to the first.

    Nothing in algo:puPL keeps μ_P near the labelled positives once Lloyd's iterations run; on about one seed in five
    it ends at the negatives and every pseudo-label is inverted.

    Args:
        rows: L2-normalised embeddings (n, k).
        labelled: s, (n,) bool.
        centres: μ_P and μ_N, (2, k).
    """
    upright = _mean_over_all((margin(rows[labelled], centres) < 0).to(rows.dtype)) >= 0.5
    return centres if upright else centres.flip(0)


def _moved(rows: Tensor, before: Tensor, after: Tensor, near: Tensor) -> tuple[Tensor, Tensor, int]:
    """The sum (k,) of the rows now on the first side, the numbers (2,) of both sides, and how many rows have moved.

    Only those that moved are read. All of it is over all processes.
    """
    moved = (before != after).nonzero().flatten()
    sign = after[moved].to(rows.dtype) * 2 - 1
    parts = zip(torch.split(moved, GATHERED), torch.split(sign, GATHERED), strict=True)
    shift = sum((part @ rows[picked] for picked, part in parts), torch.zeros_like(near))
    counts = torch.stack([after.sum(), (~after).sum(), after.new_tensor(len(moved), dtype=torch.long)])
    both = total(torch.cat([shift, counts.to(torch.float64)]))
    return near + both[:-3], both[-3:-1], int(both[-1])


def _mean_over_all(values: Tensor) -> Tensor:
    both = total(torch.stack([values.sum(), values.new_tensor(float(len(values)))]))
    return both[0] / both[1].clamp(min=1)
