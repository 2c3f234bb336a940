"""Rows with all their views and an encoder: the quantities of sec:generalization, exact over these rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.pseudo_labels.pupl import lloyd, seed_centres

GRID = 8  # values of δ and of ε that are tried
MOST_PAIRS = 1500  # views among which the Lipschitz constant is looked for


@dataclass(frozen=True)
class Augmented:
    """A population of n rows, each with the m views that make up its augmentation set T(x).

    Attributes:
        x: the views (n, m, d).
        z: their embeddings of length 1, (n, m, k).
        labelled: s, (n,).
        y: the truth, (n,).
    """

    x: Tensor
    z: Tensor
    labelled: Tensor
    y: Tensor

    @cached_property
    def prior(self) -> float:
        """The share of positives among the rows."""
        return float(self.y.double().mean())

    @cached_property
    def centres(self) -> Tensor:
        """μ_P and μ_N, the means over rows and views, (2, k)."""
        return torch.stack([self.z[self.y].mean(dim=(0, 1)), self.z[~self.y].mean(dim=(0, 1))])

    @cached_property
    def estimated_centres(self) -> Tensor:
        """μ̂_P and μ̂_N by puPL on the rows themselves, which are their first views, (2, k)."""
        rows = self.z[:, 0]
        return lloyd(rows, self.labelled, seed_centres(rows, self.labelled, Generator().manual_seed(0))).centres

    @cached_property
    def spread(self) -> Tensor:
        """The largest ‖z − z_a‖ over the pairs of views of each row, (n,)."""
        return torch.cdist(self.z, self.z).amax(dim=(1, 2))

    def misaligned(self, epsilon: float) -> float:
        """R_ε, the share of rows two of whose views lie further apart than ε."""
        return float((self.spread > epsilon).double().mean())

    def error(self, centres: Tensor) -> float:
        """The error of the nearest centroid, eq:kNN_error: the share of rows on the wrong side, by x itself."""
        nearer = torch.cdist(self.z[:, 0], centres).argmin(dim=1)
        return float((nearer != (~self.y).long()).double().mean())

    @cached_property
    def lipschitz(self) -> float:
        """The largest slope of the encoder between two views: L is at least that."""
        at = torch.randperm(self.x.shape[0] * self.x.shape[1], generator=Generator().manual_seed(0))[:MOST_PAIRS]
        x, z = (torch.pdist(each.flatten(0, 1)[at]) for each in (self.x, self.z))
        return float((z[x > 0] / x[x > 0]).max())

    @cached_property
    def distances(self) -> tuple[Tensor, Tensor]:
        """The augmentation distance d_T of def:aug_distance within each class, the positives first."""
        return self._distances(self.x[self.y]), self._distances(self.x[~self.y])

    def concentration(self, delta: float) -> float:
        """σ for a δ: the share of each class that lies within δ of each other; that of the smaller of both."""
        return min(_mutual(each <= delta) / len(each) for each in self.distances)

    @cached_property
    def best_eta(self) -> "Eta":
        """δ and ε with the least η, over a grid of both."""
        deltas = torch.cat([each.flatten() for each in self.distances]).quantile(torch.linspace(0, 1, GRID).double())
        concentrations = [(float(delta), self.concentration(float(delta))) for delta in deltas]
        epsilons = self.spread.quantile(torch.linspace(0, 1, GRID).double()).tolist()
        found = (
            Eta(sigma, delta, epsilon, self.misaligned(epsilon), self.lipschitz, self.prior)
            for delta, sigma in concentrations
            for epsilon in epsilons
        )
        return min(found, key=lambda each: each.value)

    @cached_property
    def alignment_loss(self) -> float:
        """L^I = E ‖z − z_a‖² over rows and pairs of views."""
        return float(torch.cdist(self.z, self.z).square().mean())

    @cached_property
    def partition_loss(self) -> float:
        """L^II = E log Z(z) with Z(z) = exp(z · z_a) + exp(z · z') for z, z_a ∈ T(x) and z' ∈ T(x')."""
        everything = self.z.flatten(0, 1)
        near = torch.einsum("nak,nbk->nab", self.z, self.z)
        total = sum(
            torch.logaddexp(inner[:, :, None], (own @ everything.T)[:, None]).mean()
            for inner, own in zip(near, self.z, strict=True)
        )
        return float(total) / len(self.z)

    @staticmethod
    def _distances(x: Tensor) -> Tensor:
        n, m, _ = x.shape
        return torch.cdist(x.flatten(0, 1), x.flatten(0, 1)).view(n, m, n, m).amin(dim=(1, 3))


@dataclass(frozen=True)
class Eta:
    """σ, δ, ε, R_ε, L and π of th:generalization."""

    sigma: float
    delta: float
    epsilon: float
    misaligned: float
    lipschitz: float
    prior: float

    @property
    def value(self) -> float:
        """η = 2(1 − σ) + R_ε / min{π, 1 − π} + σ(Lδ + 2ε)."""
        smaller = min(self.prior, 1 - self.prior)
        reach = self.lipschitz * self.delta + 2 * self.epsilon
        return 2 * (1 - self.sigma) + self.misaligned / smaller + self.sigma * reach

    def __str__(self) -> str:
        return (
            f"η = {self.value:.2f} (σ = {self.sigma:.2f}, δ = {self.delta:.2f}, ε = {self.epsilon:.2f}, "
            f"R_ε = {self.misaligned:.2f}, L ≥ {self.lipschitz:.2f})"
        )


def two_points(*, outliers: float = 0.04, jumps: float = 0.02, n: int = 100) -> Augmented:
    """Two classes at opposite points of the circle, views within 0.001 rad, g(x) = x.

    A share `outliers` of the positives lies with the negatives, and of each class a share `jumps` has a view there.
    """
    y = torch.arange(2 * n) < n
    angle = torch.where(y, 0.0, torch.pi).double()
    angle[: round(outliers * n)] = torch.pi
    views = angle[:, None] + torch.tensor([0.0, 0.001, -0.001], dtype=torch.float64)
    jumping = torch.arange(2 * n) % n >= n - round(jumps * n)
    views[jumping, 2] += torch.pi
    z = torch.stack([views.cos(), views.sin()], dim=2)
    return Augmented(z, z, y & (torch.arange(2 * n) % 5 == 1), y)


def digits(*, seed: int, epochs: int = 30, n: int = 50) -> Augmented:
    """Zeros and ones of 8 × 8 pixels, shifted by up to a pixel, by a small network trained with puCL on other rows."""
    from pucl.data import load
    from pucl.encoders.embedding import embed
    from pucl.training import TrainConfig, pretrain
    from pucl.views.shift import shift

    data = load("digits", seed=seed)
    kinds = np.asarray(data.classes_train)
    kept = np.flatnonzero(kinds <= 1)
    x, y = torch.from_numpy(data.x_train[kept]), torch.from_numpy(kinds[kept] == 1)
    labelled = y & (torch.arange(len(y)) % 4 == 0)
    population = torch.cat([kind.nonzero().flatten()[:n] for kind in (y, ~y)])
    train = torch.ones(len(y), dtype=torch.bool)
    train[population] = False
    config = TrainConfig(epochs=epochs, batch_size=64, optimiser="sgd", learning_rate=0.05, seed=seed)
    encoder = pretrain(x[train], labelled[train], encoder="mlp", view=shift, config=config, device="cpu").encoder
    views = _shifts(x[population].double() / 255)
    z = F.normalize(embed(encoder, views.flatten(0, 1).float()).double(), dim=1)
    return Augmented(views.flatten(2), z.view(*views.shape[:2], -1), labelled[population], y[population])


def _shifts(images: Tensor) -> Tensor:
    """All nine shifts by up to a pixel, the image itself first, (n, 9, 1, h, w)."""
    height, width = images.shape[2:]
    padded = F.pad(images, [1] * 4)
    moves = sorted(((down, right) for down in range(3) for right in range(3)), key=lambda move: move != (1, 1))
    return torch.stack([padded[:, :, a : a + height, b : b + width] for a, b in moves], dim=1)


def _mutual(near: Tensor) -> int:
    """The size of a set of rows that are all near each other, by leaving out the row with the fewest near ones."""
    kept = torch.ones(len(near), dtype=torch.bool)
    while True:
        degree = (near & kept).sum(dim=1).masked_fill(~kept, len(near) + 1)
        if int(degree.min()) >= int(kept.sum()):
            return int(kept.sum())
        kept[int(degree.argmin())] = False
