"""K-means in torch: greedy k-means++ and Lloyd's iterations, rows in pieces, the same result for the same generator."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from pucl.errors import Described, bad_argument, check_count

OWNER = "kmeans"
PIECE = 1 << 22  # numbers of rows or distances held together
UNITS = 2.0**60  # that chances are counted in
ROUNDING = 1e-6  # share of ‖z‖² + ‖c‖² below which a float32 distance is rounding, hence 0


class Clusters(NamedTuple):
    """A cluster for every row (n,), the centres (k, d) in float32 and the potential φ."""

    labels: Tensor
    centres: Tensor
    potential: float


@torch.no_grad()
def kmeans(z: Tensor, k: int, *, generator: Generator, max_iter: int = 50, n_init: int = 1) -> Clusters:
    """Centres that lie near the rows.

        φ = Σ_i min_c ‖z_i − μ_c‖²,   μ_c = mean of the rows nearer to μ_c than to any other centre

    where the first centres are drawn one by one with chances ∝ the squared distance to those there are, each the best
    of 2 + ⌊log k⌋ draws. An empty cluster takes the row farthest from its centre; clusters stay empty only when there
    are fewer different rows than clusters.

    Args:
        z: finite rows (n, d), on any device; computed with in float32, a piece at a time.
        k: how many clusters, at most n.
        generator: of the draws, on any device; the result depends on nothing else.
        max_iter: most Lloyd iterations.
        n_init: how many starts; the one with the lowest potential is returned, the first of equals.
    """
    if z.ndim != 2:
        raise bad_argument(OWNER, "z", "a matrix (n, d)", Described(f"shape {tuple(z.shape)}"))
    check_count(OWNER, "k", k, high=len(z))
    check_count(OWNER, "max_iter", max_iter)
    check_count(OWNER, "n_init", n_init)
    rows = CentredRows(z, k)
    runs = (lloyd(rows, _seed_centres(rows, k, generator), max_iter) for _ in range(n_init))
    best = min(runs, key=lambda run: run.potential)  # the first of equals
    return best._replace(centres=best.centres + rows.middle)


class CentredRows:
    """The rows around their mean, in float32 and in pieces: distances keep their digits, memory its bounds."""

    def __init__(self, z: Tensor, k: int) -> None:
        self.z, self.step = z, max(1, PIECE // max(k, z.shape[1], 1))
        self.middle = torch.zeros(z.shape[1], device=z.device)
        self.middle = sum((piece.sum(dim=0) for piece in self.pieces()), self.middle) / len(z)
        self.square = torch.cat([_square(piece) for piece in self.pieces()])  # ‖z‖², (n,)

    def pieces(self) -> Iterator[Tensor]:
        """The centred rows, some at a time."""
        for piece in torch.split(self.z, self.step):
            yield piece.to(torch.float32) - self.middle

    def squared(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Pieces with the ‖z‖² of their rows."""
        yield from zip(self.pieces(), torch.split(self.square, self.step), strict=True)

    def __getitem__(self, index: Tensor) -> Tensor:
        return self.z[index].to(torch.float32) - self.middle


def _seed_centres(rows: CentredRows, k: int, generator: Generator) -> Tensor:
    """Greedy k-means++: (k, d)."""
    n, device = len(rows.z), rows.z.device
    nearest = torch.ones(n, device=device)  # chances of the first draw; squared distances afterwards
    chosen: list[Tensor] = []
    for c in range(k):
        drawn = _draw(nearest, 2 + int(math.log(k)) if c else 1, generator)
        candidates = rows[drawn]
        square = _square(candidates)
        parts = [_squared_distances(candidates, square, *piece) for piece in rows.squared()]
        distance = torch.cat(parts, dim=1)  # (draws, n)
        if c:
            distance = torch.minimum(distance, nearest)
        best = distance.sum(dim=1).argmin()
        nearest = distance[best]
        chosen.append(candidates[best])
    return torch.stack(chosen)


def _draw(weight: Tensor, count: int, generator: Generator) -> Tensor:
    """`count` rows with chances ∝ weight, (count,); any rows when all weights are 0."""
    exact = weight.to(torch.float64)
    chance = torch.where(exact.sum() > 0, exact, torch.ones_like(exact))
    # In whole numbers: running sums of others on a GPU are neither exact nor the same twice.
    total = (chance * (UNITS / chance.sum())).long().cumsum(0).to(torch.float64)
    uniform = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64).to(weight.device)
    return torch.searchsorted(total, uniform * total[-1], right=True).clamp(max=len(weight) - 1)


def lloyd(rows: CentredRows, centres: Tensor, max_iter: int) -> Clusters:
    """Iterate from `centres` (k, d) until no row changes its cluster, at most `max_iter` times."""
    labels, distance = _assign(rows, centres)
    for _ in range(max_iter):
        centres = _means(rows, fill_empty(labels, distance, len(centres)), centres)
        new, distance = _assign(rows, centres)
        settled = torch.equal(new, labels)
        labels = new
        if settled:
            break
    return Clusters(labels, centres, math.fsum(float(part.sum()) for part in torch.split(distance, PIECE)))


def _assign(rows: CentredRows, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of every row and the squared distance to it, both (n,)."""
    square = _square(centres)
    closest = [_squared_distances(*piece, centres, square).min(dim=1) for piece in rows.squared()]
    return torch.cat([piece.indices for piece in closest]), torch.cat([piece.values for piece in closest])


def fill_empty(labels: Tensor, distance: Tensor, k: int) -> Tensor:
    """The labels with the rows farthest from their centres moved to the empty clusters, one each."""
    empty = (torch.bincount(labels, minlength=k) == 0).nonzero().flatten()
    if len(empty) == 0:
        return labels
    farthest = distance.topk(len(empty))
    away = farthest.values > 0  # a row at its centre has no use for another
    filled = labels.clone()
    filled[farthest.indices[away]] = empty[away]
    return filled


def _means(rows: CentredRows, labels: Tensor, centres: Tensor) -> Tensor:
    """The mean of every cluster (k, d); an empty one keeps its centre."""
    total = torch.zeros_like(centres)
    for piece, label in zip(rows.pieces(), torch.split(labels, rows.step), strict=True):
        # A product, not index_add: sums by atomics on a GPU differ from run to run.
        member = torch.zeros(len(piece), len(centres), device=piece.device).scatter_(1, label[:, None], 1.0)
        total += member.T @ piece
    size = torch.bincount(labels, minlength=len(centres))[:, None]
    return torch.where(size > 0, total / size.clamp(min=1), centres)


def _squared_distances(a: Tensor, a_square: Tensor, b: Tensor, b_square: Tensor) -> Tensor:
    """‖a − b‖² = ‖a‖² + ‖b‖² − 2 a·b for all pairs, with what is only rounding set to 0."""
    scale = a_square[:, None] + b_square
    distance = torch.addmm(scale, a, b.T, alpha=-2)
    return distance.masked_fill_(distance <= scale.mul_(ROUNDING), 0)


def _square(rows: Tensor) -> Tensor:
    """‖z‖² of every row, (n,)."""
    return torch.einsum("nd,nd->n", rows, rows)
