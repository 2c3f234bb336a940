"""lemma:pos_centroid: what the mean of a random sample of the positives costs against the mean of all of them."""

from itertools import combinations

import torch
from torch import Generator, Tensor

from pucl.registry import register
from pucl.theory.comparison import Comparison, exact

N_POSITIVE, N_NEGATIVE, DIM = 9, 6, 3


def expected_potential(n_positive: int, n_labelled: int, best: float) -> float:
    """E φ(Z_P, μ_P) = (1 + (n_P − n_L) / (n_L (n_P − 1))) φ*."""
    return (1 + (n_positive - n_labelled) / (n_labelled * (n_positive - 1))) * best


@register("statements", reference="lemma:pos_centroid", inputs=("vector",))
def positive_centroid(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The mean of some labelled positives costs at most twice what the mean of all does, on average.

        E φ(Z_P, μ_P) = (1 + (n_P − n_L) / (n_L (n_P − 1))) φ*

    where φ(Z, μ) = Σ_{z ∈ Z} ‖z − μ‖² and φ* = φ(Z_P, μ*) with μ* the mean of all positives. The lemma defines φ* as a
    sum over Z_PU; with the sum over Z_P it is an identity. Checked over all subsets of few points.
    """
    generator = Generator().manual_seed(seed)
    positive = torch.randn(N_POSITIVE, DIM, generator=generator, dtype=torch.float64)
    everything = torch.cat([positive, 4 + torch.randn(N_NEGATIVE, DIM, generator=generator, dtype=torch.float64)])
    best, of_all = (_potential(rows, positive.mean(dim=0)) for rows in (positive, everything))
    rows = [
        Comparison(
            f"E φ(Z_P, μ_P), {n_l} of {N_POSITIVE} positives labelled", expected_potential(N_POSITIVE, n_l, best),
            exact(_mean_over_subsets(positive, n_l)),
        )
        for n_l in (1, 3, 8)
    ]  # fmt: skip
    slip = Comparison(
        f"the same with φ* summed over Z_PU, 3 of {N_POSITIVE} labelled", expected_potential(N_POSITIVE, 3, of_all),
        exact(_mean_over_subsets(positive, 3)), corrected=expected_potential(N_POSITIVE, 3, best),
        note="φ* is the potential of the positives alone.",
    )  # fmt: skip
    return (*rows, slip)


def _potential(rows: Tensor, centre: Tensor) -> float:
    return float((rows - centre).pow(2).sum())


def _mean_over_subsets(rows: Tensor, size: int) -> float:
    """The mean of φ(Z_P, μ_P) over every choice of the labelled rows."""
    subsets = torch.tensor(list(combinations(range(len(rows)), size)))
    return float((rows - rows[subsets].mean(dim=1)[:, None]).pow(2).sum(dim=(1, 2)).mean())
