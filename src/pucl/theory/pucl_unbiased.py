"""lemma:pucl_unbiased: ssCL and puCL estimate the ideal loss without bias, and puCL with less variance."""

from types import MappingProxyType

import torch
from torch import Generator, Tensor

from pucl.registry import register
from pucl.selection.scores import Estimate
from pucl.theory.atoms import TEMPERATURE, Atoms, binomial_law, draw_batches, gap_of_log_partitions, make_atoms
from pucl.theory.comparison import Comparison, mean_of

PRIOR, DRAWS = 0.5, 2000
U, SIZE = 8, 24  # rows of U, and of whole batches where these are fixed
FALLS = "With U fixed Δ ∝ p/(u + p)² falls once γ > 1; with the size of the batch fixed it rises."
COPIED = 0.5  # share of views that are copies where the assumption is broken
NAMES = MappingProxyType({"sscl": "ssCL", "pucl": "puCL"})


def written_gain(n_labelled: int, n_rows: int, variance: float, of_means: float) -> float:
    """Var(ssCL) − Var(puCL) as the proof has it, (1 − 1/n_P) Var(z · z')."""
    del n_rows, of_means
    return (1 - 1 / n_labelled) * variance


def gain(n_labelled: int, n_rows: int, variance: float, of_means: float) -> float:
    """Var(ssCL) − Var(puCL).

        Δ = 2p(p − 1) / ((2p − 1) n²) · (σ² − 2ζ)

    where p of n rows are labelled, σ² = Var(z · z')/τ² of two positives and ζ = Var(z · μ_P)/τ²; σ² ≥ 2ζ always.
    """
    p = n_labelled
    return 2 * p * (p - 1) / ((2 * p - 1) * n_rows**2) * (variance - 2 * of_means)


def bias_of_copies(atoms: Atoms, n_labelled: int, n_unlabelled: int) -> float:
    """E ssCL − E sCL where the second view is the first with probability q.

        −q Σ_c (1/τ − ρ_c) E[n_c − n_c / (2 n_c − 1)] / n

    where n_c rows of the batch are of class c; in sCL a view meets its copy once among 2n_c − 1 rows.
    """
    n, counts = n_labelled + n_unlabelled, torch.arange(n_unlabelled + 1, dtype=torch.float64)
    in_u = binomial_law(n_unlabelled, PRIOR)
    classes = ((atoms.rho_positive, counts + n_labelled), (atoms.rho_negative, n_unlabelled - counts))
    lost = ((1 / TEMPERATURE - rho) * (in_u * (n_c - n_c / (2 * n_c - 1))).sum() for rho, n_c in classes)
    return -COPIED * float(sum(lost)) / n


@register("statements", reference="lemma:pucl_unbiased", inputs=("vector",))
def pucl_unbiased(*, seed: int = 0) -> tuple[Comparison, ...]:
    """Neither ssCL nor puCL is biased, and labels make puCL vary less than ssCL.

        E L_ssCL = E L_puCL = L*_CL,    Δ(γ) = Var(L_ssCL) − Var(L_puCL) ≥ 0,    Δ rises with γ

    where views are independent draws from the class of their row (assumption:aug_independence). Then puCL is the mean
    of ssCL over all ways to pair up the views of P, so Δ ≥ 0. As in th:scl_pu_bias the expectations agree with that of
    sCL, not with L*_CL, which has another Z. The size of Δ in the proof is not that of a mean over rows (`gain` is),
    and with U fixed Δ falls again once γ > 1; with the size of the batch fixed it rises. Real views resemble each other
    more than two rows of a class do: then both objectives are biased, puCL less.
    """
    generator = Generator().manual_seed(seed)
    atoms = make_atoms(generator)
    return (
        *(_unbiased(atoms, name, generator) for name in ("sscl", "pucl")),
        _against_ideal(atoms, generator),
        *_gain(atoms, 16, SIZE - 16, generator),
        _rises(atoms, (4, SIZE - 4), (16, SIZE - 16), f"{SIZE} rows", generator),
        _rises(atoms, (U, U), (8 * U, U), f"{U} of U", generator),
        _copies(atoms, generator),
    )


def _unbiased(atoms: Atoms, name: str, generator: Generator) -> Comparison:
    """Against sCL, which has the same Z."""
    values = _values(atoms, (name, "scl"), SIZE // 3, SIZE - SIZE // 3, generator)
    return Comparison(f"E {NAMES[name]} − E sCL, γ = 0.5", 0.0, mean_of(values[:, 0] - values[:, 1]))


def _against_ideal(atoms: Atoms, generator: Generator) -> Comparison:
    n_p, n_u = SIZE // 3, SIZE - SIZE // 3
    values = mean_of(_values(atoms, ("pucl",), n_p, n_u, generator)[:, 0])
    ideal, gap = gap_of_log_partitions(atoms, generator, n_labelled=n_p, n_unlabelled=n_u, prior=PRIOR, n=DRAWS)
    return Comparison(
        "E puCL − L*_CL, γ = 0.5", 0.0,
        Estimate(values.value - ideal.value, (values.error**2 + ideal.error**2 + gap.error**2) ** 0.5),
        corrected=gap.value, note="Unbiased for what attracts; E log Z differs from that of L*_CL, as for sCL itself.",
    )  # fmt: skip


def _gain(atoms: Atoms, n_p: int, n_u: int, generator: Generator) -> tuple[Comparison, ...]:
    """Δ: not below 0, and of the size of `gain`."""
    measured, sizes = _measured_gain(atoms, n_p, n_u, generator), _variances(atoms)
    problem = f"{n_p} labelled of {n_p + n_u} rows"
    return (
        Comparison(f"Var ssCL − Var puCL, {problem}", 0.0, measured, relation="≥"),
        Comparison(
            f"its size, {problem}", written_gain(n_p, n_p + n_u, *sizes), measured,
            corrected=gain(n_p, n_p + n_u, *sizes),
            note="A variance of a mean over n rows falls with n: Δ = 2p(p − 1)/((2p − 1)n²) · (σ² − 2ζ).",
        ),
    )  # fmt: skip


def _rises(atoms: Atoms, few: tuple[int, int], many: tuple[int, int], fixed: str, generator: Generator) -> Comparison:
    """Δ(γ₁) − Δ(γ₂) for γ₁ > γ₂."""
    low = _measured_gain(atoms, *few, generator, times=4)  # most of the error is that of the smaller batch
    high = _measured_gain(atoms, *many, generator)
    gammas = " − Δ(γ = ".join(f"{n_p / n_u:g})" for n_p, n_u in (many, few))
    return Comparison(
        f"Δ(γ = {gammas}, with {fixed} fixed", 0.0,
        Estimate(high.value - low.value, (low.error**2 + high.error**2) ** 0.5), relation="≥",
        note="" if sum(few) == sum(many) else FALLS,
    )  # fmt: skip


def _copies(atoms: Atoms, generator: Generator) -> Comparison:
    n_p, n_u = SIZE // 3, SIZE - SIZE // 3
    values = _values(atoms, ("sscl", "scl"), n_p, n_u, generator, copied=COPIED)
    return Comparison(
        "E ssCL − E sCL, half of all views copies of each other", 0.0, mean_of(values[:, 0] - values[:, 1]),
        corrected=bias_of_copies(atoms, n_p, n_u),
        note="Without assumption:aug_independence ssCL is biased: views of a row are more alike than rows of a class.",
    )  # fmt: skip


def _measured_gain(atoms: Atoms, n_p: int, n_u: int, generator: Generator, *, times: int = 1) -> Estimate:
    values = torch.cat([_values(atoms, ("sscl", "pucl"), n_p, n_u, generator) for _ in range(times)])
    squares = (values - values.mean(dim=0)).square()
    return mean_of(squares[:, 0] - squares[:, 1])


def _variances(atoms: Atoms) -> tuple[float, float]:
    """σ² and ζ: Var(z · z')/τ² of two positives, and that of its mean given z."""
    products = atoms.positive @ atoms.positive.T / TEMPERATURE
    return float(products.var(correction=0)), float(products.mean(dim=1).var(correction=0))


def _values(
    atoms: Atoms, names: tuple[str, ...], n_p: int, n_u: int, generator: Generator, *, copied: float = 0.0
) -> Tensor:
    """Objectives on the same batches, (batches, objectives)."""
    batches = draw_batches(
        atoms, DRAWS, n_labelled=n_p, n_unlabelled=n_u, prior=PRIOR, generator=generator, copied=copied
    )
    return batches.values(*names)
