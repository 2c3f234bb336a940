"""th:puPL: what the first step of puPL costs against the best two centres and against k-means++, exactly."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from pucl.pseudo_labels.pupl import lloyd
from pucl.registry import register
from pucl.theory.comparison import Comparison, exact, mean_of

PUPL, KMEANS_PLUS_PLUS = 16.0, 8 * (math.log(2) + 2)  # the factors of the theorem
N_MIXTURES = 30
MODES = "positives on both sides of the negatives"


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


def expected_after_lloyd(z: Tensor, labelled: Tensor, *, max_iter: int) -> Tensor:
    """The same after iterations of puPL, which keeps labelled rows positive, averaged over the draw of μ_N."""
    mean = z[labelled].mean(dim=0)
    weight = (z - mean).pow(2).sum(dim=1).masked_fill(labelled, 0)
    total = torch.zeros((), dtype=z.dtype)
    for j in (weight > 0).nonzero().flatten():
        centres = lloyd(z, labelled, torch.stack([mean, z[j]]), max_iter=max_iter).centres
        total += weight[j] * potential(z, centres)
    return total / weight.sum()


def potential(z: Tensor, centres: Tensor) -> Tensor:
    """φ(Z, C) of def:potential, Σ_i min_{c ∈ C} ‖z_i − c‖²."""
    return (z[:, None] - centres).pow(2).sum(dim=2).min(dim=1).values.sum()


def class_bound(z: Tensor, labelled: Tensor, positive: Tensor) -> Tensor:
    """What holds whatever the classes look like.

        E φ ≤ 2 φ(Z_P, {μ_P}) + 8 φ₁(Z_N)

    where Z_P and Z_N are the true classes and φ₁ is the potential about the mean. D² either hits Z_N, which then costs
    at most 8 φ₁(Z_N) on average (Arthur & Vassilvitskii 2007), or with probability φ(Z_P ∩ U)/φ(U) at most it does not.
    """
    of_negatives = potential(z[~positive], z[~positive].mean(dim=0)[None])
    return 2 * potential(z[positive], z[labelled].mean(dim=0)[None]) + 8 * of_negatives


def three_modes(generator: Generator, *, share: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, labels and truth: positives in two tight modes around two negatives, `share` of them labelled."""
    centres = torch.tensor([-1.0] * 150 + [1.0] * 150 + [0.0] * 2, dtype=torch.float64)
    z = centres[:, None] + 0.01 * torch.randn(len(centres), 1, generator=generator, dtype=torch.float64)
    positive = centres != 0
    return z, positive & (torch.arange(len(z)) % 150 < share * 150), positive


def _distances(z: Tensor) -> Tensor:
    return (z[:, None] - z[None]).pow(2).sum(dim=2)


@register("statements", reference="th:puPL", inputs=("vector",))
def seeding(*, seed: int = 0) -> tuple[Comparison, ...]:
    """Seeding by labelled positives costs at most 16 times the best two centres, less than k-means++.

        E φ(Z_PU, {μ_P, μ_N}) ≤ 16 φ*,    k-means++: E φ ≤ 8 (ln 2 + 2) φ* = 21.55 φ*

    where φ* is the least potential of two centres. Exact expectations on random mixtures of two Gaussian classes are
    far below both. It needs the positives to be one of the two best clusters: where they lie on both sides of the
    negatives, no factor holds, and as puPL keeps labelled rows positive, iterations need not mend it. What holds in any
    case is `class_bound`; where the classes are the best clusters and the labels a random sample, it is 8 φ*.
    """
    generator = Generator().manual_seed(seed)
    found = check_seeding(N_MIXTURES, seed=seed)
    of_mixtures = f"{N_MIXTURES} mixtures of two Gaussians"
    return (
        Comparison(f"largest E φ/φ*, puPL, {of_mixtures}", PUPL, exact(found.pupl.max()), relation="≤"),
        Comparison(
            f"largest E φ/φ*, k-means++, {of_mixtures}", KMEANS_PLUS_PLUS, exact(found.kmeans_plus_plus.max()),
            relation="≤",
        ),
        Comparison(
            f"E φ/φ* of k-means++ less that of puPL, {of_mixtures}", 0.0,
            mean_of(found.kmeans_plus_plus - found.pupl), relation="≥",
        ),
        *_on_three_modes(generator),
    )  # fmt: skip


def _on_three_modes(generator: Generator) -> tuple[Comparison, ...]:
    """E φ/φ* before and after iterations, and against k-means++."""
    rows = []
    for share, iterations, when in ((0.1, 0, "seeding"), (0.5, 1, "one iteration"), (0.5, 300, "convergence")):
        z, labelled, positive = three_modes(generator, share=share)
        best = best_potential(z, starts=20, generator=generator)
        after = (
            expected_after_lloyd(z, labelled, max_iter=iterations) if iterations else expected_after_pupl(z, labelled)
        )
        rows.append(
            Comparison(
                f"E φ/φ* after {when}, {MODES}, {share:.0%} labelled", PUPL, exact(after / best), relation="≤",
                corrected=float(class_bound(z, labelled, positive) / best),
                note="μ_P lies between the two modes of the positives. In any case E φ ≤ 2 φ(Z_P, {μ_P}) + 8 φ₁(Z_N), "
                "in terms of the true classes.",
            )
        )  # fmt: skip
    less = (expected_after_kmeans_plus_plus(z) - expected_after_pupl(z, labelled)) / best
    return (
        *rows,
        Comparison(
            f"E φ/φ* of k-means++ less that of puPL, {MODES}", 0.0, exact(less), relation="≥",
            note="Labels improve on k-means++ where the positives are one cluster, not elsewhere.",
        ),
    )  # fmt: skip
