"""th:generalization: the error of the nearest centroid that puPL finds, bounded by alignment and augmentations."""

import math

from pucl.registry import register
from pucl.theory.augmented import Augmented, Eta, digits, two_points
from pucl.theory.comparison import Comparison, exact


def error_bound(sigma: float, misaligned: float) -> float:
    """The bound (1 − σ) + R_ε."""
    return (1 - sigma) + misaligned


def room(eta: Eta, population: Augmented) -> float:
    """What μ_P · μ_N must stay below, 1 − η − √(2η) − ½ (1 − min ‖μ_ℓ‖²)."""
    shortest = float(population.centres.pow(2).sum(dim=1).min())
    return 1 - eta.value - math.sqrt(2 * eta.value) - (1 - shortest) / 2


def estimation_error(population: Augmented) -> float:
    """ζ_μ = ζ_P + ζ_N + ζ_P ζ_N with ζ = ‖μ̂ − μ‖."""
    of_p, of_n = (population.estimated_centres - population.centres).norm(dim=1).tolist()
    return float(of_p + of_n + of_p * of_n)


@register("statements", reference="th:generalization", inputs=("image",))
def generalization(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The nearest centroid of puPL errs on few rows if classes are aligned and centroids apart.

        μ̂_P · μ̂_N < 1 − η − √(2η) − Δ(μ) − ζ_μ   ⟹   err ≤ (1 − σ) + R_ε
        η = 2(1 − σ) + R_ε / min{π, 1 − π} + σ(Lδ + 2ε)

    where σ, δ are those of def:aug_delta_sigma, R_ε is the share of rows with two views further apart than ε, L the
    Lipschitz constant of the encoder, and ζ_μ what the centroids are off. As μ̂_P · μ̂_N ≥ −1, the condition needs
    η < 0.76. On two points with views next to them it is met; on digits η is several times that, although L is bounded
    from below and δ and ε are chosen for the least η.
    """
    return tuple(_compare(name, each) for name, each in problems(seed))


def problems(seed: int) -> tuple[tuple[str, Augmented], ...]:
    """Where the bound is looked at: an ideal case, and a small trained network."""
    return ("two points with outliers", two_points()), ("digits 0 and 1, trained network", digits(seed=seed))


def compare_error(name: str, population: Augmented, product: float, limit: float, error: float) -> Comparison:
    """The error against its bound, which says nothing where the product of the centroids is not below its limit."""
    eta = population.best_eta
    bound = error_bound(eta.sigma, eta.misaligned)
    unmet = product >= limit
    met = "is not met" if unmet else "is met"
    return Comparison(
        f"error of the nearest centroid, {name}", bound, exact(error), relation="≤", vacuous=unmet or bound >= 0.5,
        note=f"The condition {met}: μ_P · μ_N is {product:.2f} and must be below {limit:.2f}; {eta}.",
    )  # fmt: skip


def _compare(name: str, population: Augmented) -> Comparison:
    centres = population.estimated_centres
    limit = room(population.best_eta, population) - estimation_error(population)
    return compare_error(name, population, float(centres[0] @ centres[1]), limit, population.error(centres))
