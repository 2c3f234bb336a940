"""lemma:bound_align_puCL: how many rows have views far apart, bounded by the alignment loss."""

import math

from pucl.registry import register
from pucl.theory.augmented import Augmented
from pucl.theory.comparison import Comparison, exact
from pucl.theory.generalization import problems

EPSILON = 1.0


def written_bound(epsilon: float, n_views: int, alignment_loss: float) -> float:
    """η'(ε, T) √L^I for m discrete transformations and no continuous one (M = 0, any h): 4 m² √L^I / ε."""
    return 4 * n_views**2 * math.sqrt(alignment_loss) / epsilon


def tight_bound(epsilon: float, n_views: int, alignment_loss: float) -> float:
    """By Markov's inequality: one bad pair of views among m² counts twice, so R_ε ≤ m² L^I / (2ε²)."""
    return n_views**2 * alignment_loss / (2 * epsilon**2)


@register("statements", reference="lemma:bound_align_puCL", inputs=("image",))
def alignment(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The share of rows whose views are not aligned falls with the alignment part of the loss.

        R_ε ≤ η'(ε, T) √L^I,    η' = inf_h 4 max(1, m²h²d) / (h²d (ε − 2√d L M h))

    where L^I = E ‖z − z_a‖² and T has m discrete transformations; with these alone (M = 0) the infimum is 4m²/ε. True
    and above 1 unless L^I < ε²/(16 m⁴). Markov's inequality for the squares gives m² L^I / (2ε²), which is of use.
    """
    return tuple(_compare(name, each) for name, each in problems(seed))


def _compare(name: str, population: Augmented) -> Comparison:
    n_views = population.z.shape[1]
    parts = EPSILON, n_views, population.alignment_loss
    bound = written_bound(*parts)
    return Comparison(
        f"R_ε, ε = {EPSILON:g}, {n_views} views, {name}", bound, exact(population.misaligned(EPSILON)), relation="≤",
        corrected=tight_bound(*parts), vacuous=bound >= 1,
        note="Markov's inequality for the squares is far tighter: R_ε ≤ m² L^I / (2ε²).",
    )  # fmt: skip
