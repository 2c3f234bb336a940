"""lemma:bound_centroid_divergence_puCL: centroids are apart when the second part of the loss is low."""

import math

from pucl.registry import register
from pucl.theory.augmented import Augmented, Eta
from pucl.theory.comparison import Comparison, exact
from pucl.theory.generalization import problems

STEPS = 60  # of a bisection


def written_bound(loss: float, eta: Eta) -> float:
    """log(exp(L^II + c) + c'), c' = exp(1/(π(1 − π))) − exp(1 − ε), as the lemma has it."""
    exponent = 1 / (eta.prior * (1 - eta.prior))
    return math.log(math.exp(loss + _constant(eta)) + math.exp(exponent) - math.exp(1 - eta.epsilon))


def appendix_bound(loss: float, eta: Eta) -> float:
    """log(exp((L^II + c) / (π(1 − π))) − exp(1 − ε)), as its proof has it."""
    exponent = (loss + _constant(eta)) / (eta.prior * (1 - eta.prior))
    return exponent + math.log1p(-math.exp(1 - eta.epsilon - exponent))


def product_bound(population: Augmented) -> float:
    """The largest μ_P · μ_N that the loss allows: the v at which the two sides are equal.

        L^II ≥ Σ_{c, c'} p_c p_c' log(e^{A_c} + e^{μ_c · μ_c'})

    where A_c is the mean of z · z_a in class c, and v stands in the place of μ_P · μ_N. This is Jensen's inequality, as
    log(eᵃ + eᵇ) is convex: no σ, δ, ε or L is needed. With both classes collapsed to points it is an equation.
    """
    shares = (population.prior, 1 - population.prior)
    near = [
        float(z.mean(dim=1).pow(2).sum(dim=1).mean()) for z in (population.z[population.y], population.z[~population.y])
    ]
    lengths = population.centres.pow(2).sum(dim=1).tolist()
    same = sum(p**2 * _softplus_of(a, b) for p, a, b in zip(shares, near, lengths, strict=True))
    left = (population.partition_loss - same) / (shares[0] * shares[1])
    low, high = -30.0, 30.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(_softplus_of(a, middle) for a in near) < left else (low, middle)
    return high


@register("statements", reference="lemma:bound_centroid_divergence_puCL", inputs=("image",))
def centroid_divergence(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The centroids are apart when the repelling part of the loss is low.

        log(exp(L^II + c) + c') < 1 − η − √(2η) − ½Δ(μ) − ζ_μ,    c' = exp(1/(π(1 − π))) − exp(1 − ε)

    where L^II = E log Z and the left side stands for the largest μ_P · μ_N that L^II allows. The condition can never be
    met: π(1 − π) ≤ ¼, so the left side is above log(e⁴ − e) = 3.9, and the right side is at most 1. The form in the
    proof is above 4.4 for aligned views. `product_bound` is what L^II says of μ_P · μ_N. Two slips: ½Δ(μ) should be
    Δ(μ), and the loss is ½L^I + L^II − 1, not L^I + L^II.
    """
    (ideal, points), (trained, images) = problems(seed)
    least = math.log(math.exp(4) - math.exp(1))
    return (
        Comparison(
            "least value of the left side, any encoder and any π; the right side is at most", 1.0, exact(least),
            relation="≤", vacuous=True, note="No encoder meets the condition, whatever its loss.",
        ),
        _product(ideal, points),
        _product(trained, images),
        _decomposed(trained, images),
    )  # fmt: skip


def _product(name: str, population: Augmented) -> Comparison:
    eta, loss = population.best_eta, population.partition_loss
    written, of_proof = written_bound(loss, eta), appendix_bound(loss, eta)
    return Comparison(
        f"μ_P · μ_N against the left side, {name}", written, exact(population.centres[0] @ population.centres[1]),
        relation="≤", corrected=product_bound(population), vacuous=min(written, of_proof) >= 1,
        note=f"Every product of centroids is at most 1; the form in the proof gives {of_proof:.1f}. Corrected: "
        "Jensen's inequality for each pair of classes.",
    )  # fmt: skip


def _decomposed(name: str, population: Augmented) -> Comparison:
    """The loss against its two parts."""
    first, second = population.alignment_loss, population.partition_loss
    pull = float(population.z.mean(dim=1).pow(2).sum(dim=1).mean())  # E z · z_a
    return Comparison(
        f"E [log Z − z · z_a] as L^I + L^II, {name}", first + second, exact(second - pull),
        corrected=first / 2 + second - 1, note="For rows of length 1 the loss is ½L^I + L^II − 1.",
    )  # fmt: skip


def _constant(eta: Eta) -> float:
    """c(σ, δ, ε, R_ε)."""
    reach, rest = eta.lipschitz * eta.delta, 1 - eta.sigma
    inner = 2 * eta.epsilon + reach + 4 * rest + 8 * eta.misaligned
    return inner**2 + 4 * eta.epsilon + 2 * reach + 8 * rest + 18 * eta.misaligned


def _softplus_of(a: float, b: float) -> float:
    """log(eᵃ + eᵇ)."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))
