"""th:puPL: what the first step of puPL costs against the best two centres and against k-means++, exactly."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from pucl.pseudo_labels.pupl import lloyd


@dataclass(frozen=True)
class Seeding:
    """Expected potentials over the best potential φ*, (n,): one entry per mixture."""

    pupl: Tensor
    kmeans_plus_plus: Tensor


def expected_after_pupl(z: Tensor, labelled: Tensor) -> Tensor:
    """The potential after puPL's seeding, averaged over the draw of the second centre.

        E φ = Σ_{j ∈ U} d_j φ({μ_P, z_j}) / Σ_{j ∈ U} d_j,    φ(C) = Σ_i min_{c ∈ C} ‖z_i − c‖²

    where μ_P is the mean of the labelled rows and d_j = ‖z_j − μ_P‖².
    """
    to_mean = (z - z[labelled].mean(dim=0)).pow(2).sum(dim=1)
    weight = to_mean.masked_fill(labelled, 0)
    return weight @ torch.minimum(_distances(z), to_mean).sum(dim=1) / weight.sum()


def expected_after_kmeans_plus_plus(z: Tensor) -> Tensor:
    """The potential after k-means++, averaged over both draws: the first centre uniform, the second by D²."""
    distances = _distances(z)
    after = torch.stack([torch.minimum(distances, row).sum(dim=1) for row in distances])  # (first, second)
    return ((distances * after).sum(dim=1) / distances.sum(dim=1)).mean()


def best_potential(z: Tensor, *, starts: int, generator: Generator) -> Tensor:
    """φ*, the least potential that Lloyd's iterations reach from many starts: an upper bound that is tight here."""
    none_labelled = torch.zeros(len(z), dtype=torch.bool)
    pairs = [torch.randperm(len(z), generator=generator)[:2] for _ in range(starts)]
    explained = max(lloyd(z, none_labelled, z[pair]).explained for pair in pairs)
    return z.pow(2).sum() - explained


def random_mixture(generator: Generator, *, n: int = 100, share: float = 0.2) -> tuple[Tensor, Tensor]:
    """Two Gaussian classes of random place, spread, size and dimension, and a random sample of one of them labelled."""
    dim = int(torch.randint(1, 9, (), generator=generator))
    prior, gap = 0.2 + 0.6 * torch.rand((), generator=generator), 6 * torch.rand((), generator=generator)
    spread = 0.3 + torch.rand(2, generator=generator)
    positive = torch.rand(n, generator=generator) < prior
    positive[:2] = torch.tensor([True, False])
    z = torch.randn(n, dim, generator=generator, dtype=torch.float64) * spread[positive.long()][:, None]
    z[positive, 0] += gap
    labelled = positive & (torch.rand(n, generator=generator) < share)
    labelled[0] = True
    return z, labelled


def check_seeding(n_mixtures: int, *, seed: int = 0, starts: int = 20) -> Seeding:
    """Both expectations over φ* on random mixtures."""
    generator = Generator().manual_seed(seed)
    ratios: list[tuple[Tensor, Tensor]] = []
    for _ in range(n_mixtures):
        z, labelled = random_mixture(generator)
        best = best_potential(z, starts=starts, generator=generator)
        ratios.append((expected_after_pupl(z, labelled) / best, expected_after_kmeans_plus_plus(z) / best))
    ours, theirs = zip(*ratios, strict=True)
    return Seeding(torch.stack(ours), torch.stack(theirs))


def _distances(z: Tensor) -> Tensor:
    return (z[:, None] - z[None]).pow(2).sum(dim=2)
