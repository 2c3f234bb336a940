"""lemma:label_noise: how much label noise treating unlabelled rows as negatives makes, and what it breaks."""

import torch
from torch import Generator, Tensor

from pucl.numerics.auc import auc
from pucl.registry import register
from pucl.selection.limits import breakdown_share, noise_rate, outnumbered_share
from pucl.theory.comparison import Comparison, exact, mean_of

N_UNLABELLED, DRAWS = 100_000, 300
FAR = 1e6  # where an adversary puts the positives
GRID = ((0.2, 0.1), (0.5, 0.1), (0.5, 1.0), (0.9, 0.1), (0.9, 1.0))


@register("statements", reference="lemma:label_noise", inputs=("vector",))
def label_noise(*, seed: int = 0) -> tuple[Comparison, ...]:
    """How many positives the naive approach mislabels, and from which π on it breaks.

        E ξ_P = π / (γ + π),    no robust estimator if γ ≤ 2π − 1

    where γ = n_P / n_U. The condition says that half of all rows are mislabelled. It is enough for failure; a
    classifier that gives the likelier label fails much earlier: it calls no positive positive once ξ_P > ½, that is
    π > γ. The noise leaves the order alone: labelled against unlabelled ranks rows like positive against negative.
    """
    generator = Generator().manual_seed(seed)
    return (*(_rate(prior, gamma, generator) for prior, gamma in GRID), *_broken(), _order(generator))


def _rate(prior: float, gamma: float, generator: Generator) -> Comparison:
    """The share of all positives that is taken for negative, with random classes in U."""
    n_u = torch.full((DRAWS,), float(N_UNLABELLED), dtype=torch.float64)
    wrong = torch.binomial(n_u, torch.full_like(n_u, prior), generator=generator)
    return Comparison(
        f"share of positives taken for negative, π = {prior}, γ = {gamma}", noise_rate(prior, gamma),
        mean_of(wrong / (gamma * n_u + wrong)),
    )  # fmt: skip


def _broken(gamma: float = 0.25, n: int = 1000) -> tuple[Comparison, ...]:
    """From which number of positives among n unlabelled rows on estimates break: a median, and the likelier label."""
    n_p, wrong = round(gamma * n), torch.arange(1, n)
    half = int(wrong[2 * wrong >= n + n_p].min()) / n
    rows = torch.zeros(n + n_p, dtype=torch.float64)
    rows[: int(half * n) + 1] = FAR
    outnumbered = int(wrong[wrong > n_p].min()) / n  # more unlabelled than labelled rows at the point of the positives
    problem = f"γ = {gamma}"
    return (
        Comparison(f"π from which half of all rows are mislabelled, {problem}", breakdown_share(gamma), exact(half)),
        Comparison(
            f"what a median of all rows becomes there when the mislabelled lie at 10⁶, {problem}", FAR / 2,
            exact(rows.median()), relation="≥",
        ),
        Comparison(
            f"π from which the likelier label is wrong for every positive, {problem}", breakdown_share(gamma),
            exact(outnumbered), corrected=outnumbered_share(gamma) + 1 / n,
            note="Treating U as negative fails from π > γ on, long before γ ≤ 2π − 1: positives are then more often "
            "unlabelled than labelled.",
        ),
    )  # fmt: skip


def _order(generator: Generator) -> Comparison:
    """AUC of the probability of being labelled, against that of being positive, well beyond the breakdown."""
    prior, gamma, n = 0.9, 0.1, 2000
    y = torch.rand(n, generator=generator) < prior
    x = torch.randn(n, generator=generator, dtype=torch.float64) + 2 * y
    ratio = torch.exp(2 * x - 2)  # of the densities of N(2, 1) and N(0, 1)
    labelled = gamma * ratio / (gamma * ratio + prior * ratio + 1 - prior)
    positive = prior * ratio / (prior * ratio + 1 - prior)
    areas = [_auc(score, y) for score in (positive, labelled)]
    return Comparison(
        "AUC of the naive score beyond the breakdown, π = 0.9, γ = 0.1", areas[0], exact(areas[1]),
        note="The order survives; what breaks are the threshold and the probabilities.",
    )  # fmt: skip


def _auc(score: Tensor, y: Tensor) -> float:
    return auc(score[y].numpy(), score[~y].numpy())[0]
