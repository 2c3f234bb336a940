"""th:scl_pu_bias: the bias of sCL-PU, which takes the unlabelled rows for a class."""

from torch import Generator

from pucl.data.pu_split import kappa
from pucl.registry import register
from pucl.selection.scores import Estimate
from pucl.theory.atoms import Atoms, draw_batches, gap_of_log_partitions, make_atoms
from pucl.theory.comparison import Comparison, mean_of

N_UNLABELLED, DRAWS = 40, 400
PRIORS, GAMMAS = (0.2, 0.5, 0.8), (0.1, 0.5, 1.5)
SMALL = (
    "In small batches the bias is smaller by the factor (2u − 2)/(2u − 1): one of the other views is a view of the "
    "same row."
)


def bias_of_scl_pu(prior: float, gamma: float, rho_intra: float, rho_inter: float) -> float:
    """The bias 2κ(ρ_intra − ρ_inter) with κ = π(1 − π)/(1 + γ)."""
    return 2 * kappa(prior, gamma) * (rho_intra - rho_inter)


@register("statements", reference="th:scl_pu_bias", inputs=("vector",))
def scl_pu_bias(*, seed: int = 0) -> tuple[Comparison, ...]:
    r"""The bias of sCL-PU grows with κ = π(1 − π)/(1 + γ) and with how far the classes are apart.

        E L_sCL-PU − L*_CL = 2κ(ρ_intra − ρ_inter),    κ = π(1 − π) / (1 + γ)

    where ρ_intra = (ρ_P + ρ_N)/2 and ρ_inter are mean similarities within and between classes. It holds for the terms
    of attraction: against sCL on the same batches, which has the same Z. Three things are not as written: L*_CL has
    another Z, of rows of the other class alone; ρ_intra is not the mean over pairs of one class, in which the larger
    class weighs more; and in a batch with u unlabelled rows a view meets its own other view, which takes the factor
    (2u − 2)/(2u − 1). As ρ_P = ‖μ_P‖²/τ, the bias is κ‖μ_P − μ_N‖²/τ: sCL-PU draws the centroids together.
    """
    generator = Generator().manual_seed(seed)
    atoms = make_atoms(generator)
    grid = (_against_scl(atoms, prior, gamma, generator) for prior in PRIORS for gamma in GAMMAS)
    return (*grid, _small_batch(atoms, generator), _unequal(atoms, generator), _against_ideal(atoms, generator))


def _rho_intra(atoms: Atoms) -> float:
    return (atoms.rho_positive + atoms.rho_negative) / 2


def _difference(atoms: Atoms, prior: float, gamma: float, n_u: int, n: int, generator: Generator) -> Estimate:
    """E L_sCL-PU − E L_sCL over batches in which both see the same rows."""
    batches = draw_batches(atoms, n, n_labelled=round(gamma * n_u), n_unlabelled=n_u, prior=prior, generator=generator)
    values = batches.values("scl_pu", "scl")
    return mean_of(values[:, 0] - values[:, 1])


def _against_scl(atoms: Atoms, prior: float, gamma: float, generator: Generator) -> Comparison:
    written = bias_of_scl_pu(prior, gamma, _rho_intra(atoms), atoms.rho_inter)
    return Comparison(
        f"E sCL-PU − E sCL, π = {prior}, γ = {gamma}", written,
        _difference(atoms, prior, gamma, N_UNLABELLED, DRAWS, generator),
        corrected=written * (2 * N_UNLABELLED - 2) / (2 * N_UNLABELLED - 1), note=SMALL,
    )  # fmt: skip


def _small_batch(atoms: Atoms, generator: Generator, n_u: int = 4) -> Comparison:
    written = bias_of_scl_pu(0.5, 0.5, _rho_intra(atoms), atoms.rho_inter)
    return Comparison(
        f"E sCL-PU − E sCL, π = 0.5, γ = 0.5, {n_u} unlabelled rows", written,
        _difference(atoms, 0.5, 0.5, n_u, 8 * DRAWS, generator), corrected=written * (2 * n_u - 2) / (2 * n_u - 1),
        note=SMALL,
    )  # fmt: skip


def _unequal(atoms: Atoms, generator: Generator) -> Comparison:
    """ρ_intra read as it is defined, as a mean over pairs of rows of one class."""
    prior, gamma = 0.8, 0.1
    ones, zeros = prior**2, (1 - prior) ** 2
    pairs = (ones * atoms.rho_positive + zeros * atoms.rho_negative) / (ones + zeros)
    written, corrected = (bias_of_scl_pu(prior, gamma, rho, atoms.rho_inter) for rho in (pairs, _rho_intra(atoms)))
    return Comparison(
        f"the same with ρ_intra over pairs of one class, π = {prior}, γ = {gamma}", written,
        _difference(atoms, prior, gamma, N_UNLABELLED, DRAWS, generator), corrected=corrected,
        note="ρ_intra is (ρ_P + ρ_N)/2, as in the proof, whatever the share of the classes.",
    )  # fmt: skip


def _against_ideal(atoms: Atoms, generator: Generator, prior: float = 0.5, gamma: float = 0.5) -> Comparison:
    """Against L*_CL itself, with as many terms in its Z as a batch has."""
    n_p, n_u = round(gamma * N_UNLABELLED), N_UNLABELLED
    batches = draw_batches(atoms, DRAWS, n_labelled=n_p, n_unlabelled=n_u, prior=prior, generator=generator)
    losses = mean_of(batches.values("scl_pu"))
    ideal, gap = gap_of_log_partitions(atoms, generator, n_labelled=n_p, n_unlabelled=n_u, prior=prior)
    written = bias_of_scl_pu(prior, gamma, _rho_intra(atoms), atoms.rho_inter)
    return Comparison(
        f"E sCL-PU − L*_CL, π = {prior}, γ = {gamma}", written,
        Estimate(losses.value - ideal.value, (losses.error**2 + ideal.error**2 + gap.error**2) ** 0.5),
        corrected=written * (2 * n_u - 2) / (2 * n_u - 1) + gap.value,
        note="The Z of L*_CL sums over rows of the other class, that of a batch over all rows: E log Z differs and has "
        "to be added, for every objective alike.",
    )  # fmt: skip
