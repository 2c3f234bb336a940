"""Embeddings whose truth is known: two classes on the unit sphere, each a few points that are equally likely."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.losses import Objective, make_objective
from pucl.losses.pairs import Pairs
from pucl.selection.scores import Estimate
from pucl.theory.comparison import mean_of

TEMPERATURE = 0.5
IDEAL = 20_000  # draws of the terms of the ideal loss
CHUNK = 100  # batches computed at a time


@dataclass(frozen=True)
class Atoms:
    """The points (k, d) of the positives and of the negatives; every expectation over them is a finite sum."""

    positive: Tensor
    negative: Tensor

    @property
    def rho_positive(self) -> float:
        """ρ_P = E z · z' / τ of independent positives: ‖E z‖² / τ."""
        return float(self.positive.mean(dim=0).pow(2).sum()) / TEMPERATURE

    @property
    def rho_negative(self) -> float:
        """ρ_N, likewise of negatives."""
        return float(self.negative.mean(dim=0).pow(2).sum()) / TEMPERATURE

    @property
    def rho_inter(self) -> float:
        """ρ_inter, of a positive and a negative."""
        return float(self.positive.mean(dim=0) @ self.negative.mean(dim=0)) / TEMPERATURE

    def draw(self, is_positive: Tensor, generator: Generator) -> Tensor:
        """One independent point for every entry of a mask, (…, d)."""
        at = torch.randint(len(self.positive), is_positive.shape, generator=generator)
        return torch.where(is_positive[..., None], self.positive[at], self.negative[at])


@dataclass(frozen=True)
class Batches:
    """Many batches of n rows: two views (b, n, d), labels and truth (b, n); the labelled rows come first."""

    first: Tensor
    second: Tensor
    labelled: Tensor
    y: Tensor

    def values(self, *objectives: str) -> Tensor:
        """Objectives on the same batches, (b, objectives); sCL learns from the truth."""
        return torch.stack([self._each(_objective(name), truth=name == "scl") for name in objectives], dim=1)

    def log_partition(self) -> Tensor:
        """The mean of log Z(z_i) in every batch, (b,)."""
        return self._each(_mean_log_partition, truth=False)

    def _each(self, compute: Objective, *, truth: bool) -> Tensor:
        labels = self.y if truth else self.labelled
        found: Tensor = torch.vmap(compute, chunk_size=CHUNK)(self.first, self.second, labels)
        return found


def _objective(name: str) -> Objective:
    return make_objective(name, temperature=TEMPERATURE, implementation="plain", gather_distributed=False)


def _mean_log_partition(first: Tensor, second: Tensor, labelled: Tensor) -> Tensor:
    pairs = Pairs.of(first, second, labelled, "plain", gather_distributed=False)
    return pairs.log_partition(TEMPERATURE).mean()


def make_atoms(generator: Generator, *, n_points: int = 8, dim: int = 6) -> Atoms:
    """A close class of positives and a wide one of negatives, so that ρ_P and ρ_N differ."""
    centres = torch.eye(2, dim, dtype=torch.float64)
    spread = torch.tensor([0.3, 0.8], dtype=torch.float64)
    noise = torch.randn(2, n_points, dim, generator=generator, dtype=torch.float64)
    points = F.normalize(centres[:, None] + spread[:, None, None] * noise, dim=2)
    return Atoms(points[0], points[1])


def draw_batches(
    atoms: Atoms,
    n: int,
    *,
    n_labelled: int,
    n_unlabelled: int,
    prior: float,
    generator: Generator,
    copied: float = 0.0,
) -> Batches:
    """Independent batches in which assumption:aug_independence holds: both views are draws from the row's class.

    With `copied` it is broken as real augmentations break it: with this probability the second view is the first.
    """
    labelled = (torch.arange(n_labelled + n_unlabelled) < n_labelled).expand(n, -1)
    y = labelled | (torch.rand(labelled.shape, generator=generator) < prior)
    first, second = atoms.draw(y, generator), atoms.draw(y, generator)
    same = torch.rand(labelled.shape, generator=generator) < copied
    return Batches(first, torch.where(same[..., None], first, second), labelled, y)


def binomial_law(n: int, prior: float) -> Tensor:
    """The probabilities of 0 to n positives among n unlabelled rows, (n + 1,)."""
    return torch.tensor([math.comb(n, k) * prior**k * (1 - prior) ** (n - k) for k in range(n + 1)]).double()


def ideal_terms(atoms: Atoms, n: int, *, share: float, n_negatives: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draws of the terms of the ideal loss L*_CL, eq:asymptotic_scl, and of its log Z, both (n,).

        ℓ_i = log Z(z_i) − z_i · z_j,    Z(z_i) = exp(z_i · z_j) + Σ_k exp(z_i · z_k)

    where j is of the class of i, the k are `n_negatives` rows of the other class, and `share` of all rows are positive.
    """
    y = torch.rand(n, generator=generator) < share
    anchor, partner = atoms.draw(y, generator), atoms.draw(y, generator)
    others = atoms.draw(~y[:, None].expand(n, n_negatives), generator)
    near = (anchor * partner).sum(dim=1) / TEMPERATURE
    far = torch.einsum("nd,nkd->nk", anchor, others) / TEMPERATURE
    log_z = torch.cat([near[:, None], far], dim=1).logsumexp(dim=1)
    return log_z - near, log_z


def gap_of_log_partitions(
    atoms: Atoms, generator: Generator, *, n_labelled: int, n_unlabelled: int, prior: float, n: int = 150
) -> tuple[Estimate, Estimate]:
    """The ideal loss L*_CL, and E log Z of batches less its E log Z; both Z have as many terms, 2(n_P + n_U) − 1."""
    size = n_labelled + n_unlabelled
    batches = draw_batches(atoms, n, n_labelled=n_labelled, n_unlabelled=n_unlabelled, prior=prior, generator=generator)
    of_batch = mean_of(batches.log_partition())
    share = (n_labelled + prior * n_unlabelled) / size
    loss, log_z = ideal_terms(atoms, IDEAL, share=share, n_negatives=2 * size - 2, generator=generator)
    of_ideal = mean_of(log_z)
    gap = Estimate(of_batch.value - of_ideal.value, (of_batch.error**2 + of_ideal.error**2) ** 0.5)
    return mean_of(loss), gap
