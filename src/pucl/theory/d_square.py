"""lemma:d_square: what drawing the second centre of puPL by D² costs, given the first."""

import torch
from torch import Generator, Tensor

from pucl.pseudo_labels.pupl import lloyd
from pucl.registry import register
from pucl.theory.comparison import Comparison, exact
from pucl.theory.seeding import class_bound, expected_after_pupl, potential, random_mixture

N_MIXTURES, STARTS = 30, 20


def bound_of_seeding(of_labelled: float, of_unlabelled: float) -> float:
    """The bound of the lemma, 2 φ(Z_PL, {μ_P}) + 16 φ*(Z_U, C*)."""
    return 2 * of_labelled + 16 * of_unlabelled


@register("statements", reference="lemma:d_square", inputs=("vector",))
def d_square(*, seed: int = 0) -> tuple[Comparison, ...]:
    """After a second centre drawn by D², the potential is bounded by what each class costs.

        E φ(Z_PU, {μ_P, μ_N}) ≤ 2 φ(Z_PL, {μ_P}) + 16 φ*(Z_U, C*)

    where C* are the best two centres. The lemma of Arthur & Vassilvitskii it follows from charges a whole cluster to
    its centre, not the labelled part of one. With a labelled outlier the right side is next to nothing and the left is
    not: unlabelled positives are far from μ_P. `class_bound` charges all positives to μ_P; and 8 in the place of 16
    will do.
    """
    generator = Generator().manual_seed(seed)
    largest = max(_ratio(*random_mixture(generator), generator) for _ in range(N_MIXTURES))
    z, labelled, positive = _outlier(generator)
    return (
        Comparison(
            f"largest E φ over the bound, {N_MIXTURES} mixtures of two Gaussians", 1.0, exact(largest), relation="≤"
        ),
        Comparison(
            "E φ with one labelled positive, far from the others", _bound(z, labelled, generator),
            exact(expected_after_pupl(z, labelled)), relation="≤", corrected=float(class_bound(z, labelled, positive)),
            note="The first term has to be of all positives, 2 φ(Z_P, {μ_P}), the second of the negatives, 8 φ₁(Z_N).",
        ),
    )  # fmt: skip


def _ratio(z: Tensor, labelled: Tensor, generator: Generator) -> float:
    return float(expected_after_pupl(z, labelled)) / _bound(z, labelled, generator)


def _bound(z: Tensor, labelled: Tensor, generator: Generator) -> float:
    """The bound with C* from the best of many starts."""
    none = torch.zeros(len(z), dtype=torch.bool)
    starts = (torch.randperm(len(z), generator=generator)[:2] for _ in range(STARTS))
    best = max((lloyd(z, none, z[pair]) for pair in starts), key=lambda found: found.explained).centres
    of_labelled = potential(z[labelled], z[labelled].mean(dim=0)[None])
    return bound_of_seeding(float(of_labelled), float(potential(z[~labelled], best)))


def _outlier(generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, labels and truth: tight classes at 0 and 1, and one more positive at 5, the only one labelled."""
    centres = torch.tensor([5.0] + [0.0] * 50 + [1.0] * 50, dtype=torch.float64)
    z = centres[:, None] + 0.01 * torch.randn(len(centres), 1, generator=generator, dtype=torch.float64)
    return z, torch.arange(len(z)) == 0, centres != 1
