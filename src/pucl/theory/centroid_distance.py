"""lemma:bound_clustdist: the error of the nearest of the true centroids, after Huang et al. 2023."""

from pucl.registry import register
from pucl.theory.augmented import Augmented
from pucl.theory.comparison import Comparison
from pucl.theory.generalization import compare_error, problems, room


@register("statements", reference="lemma:bound_clustdist", inputs=("image",))
def centroid_distance(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The nearest of the true centroids errs on few rows if classes are aligned and centroids apart.

        μ_P · μ_N < 1 − η − √(2η) − ½ (1 − min ‖μ_ℓ‖²)   ⟹   err ≤ (1 − σ) + R_ε

    where η is that of th:generalization. The theorem takes the bound over to the centroids of puPL; its proof shows
    that the true centroids are apart, and leaves open why the estimated ones err no more.
    """
    return tuple(_compare(f"{name}, true centroids", each) for name, each in problems(seed))


def _compare(name: str, population: Augmented) -> Comparison:
    product = float(population.centres[0] @ population.centres[1])
    limit = room(population.best_eta, population)
    return compare_error(name, population, product, limit, population.error(population.centres))
