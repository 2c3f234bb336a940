"""What confirmed negatives are worth: π̂, its interval, the test of randomness, and the ranking, on simulated rows.

    python studies/negatives.py share      # π̂ from scores of two Gaussians, by BBE and by adjusted counting
    python studies/negatives.py random     # negatives that were picked by their scores: how often is that found out?
    python studies/negatives.py ranking    # AUC on U with and without negatives, classes of four modes each

Nothing was chosen by a truth that a user would not have, except the share that rankers drop: see LOG.md.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl import pseudo_label
from pucl.numerics.auc import auc
from pucl.priors.adjusted_count import adjusted_count, negatives_look_random
from pucl.priors.bbe import bbe

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
REPEATS = 200
# (standard deviations between the classes, π, n_P, n_U, n_N)
SHARES = (
    (0.5, 0.1, 100, 3000, 100), (1, 0.1, 100, 3000, 200), (1, 0.5, 100, 3000, 200), (1, 0.03, 300, 10_000, 1000),
    (2, 0.1, 100, 3000, 200), (2, 0.3, 50, 500, 30), (3, 0.1, 100, 3000, 50), (3, 0.3, 20, 500, 10),
)  # fmt: skip
PICKED = (0.0, 0.5, 1.0, 2.0)  # negatives are drawn with chances exp(a · score)
RANKINGS = ((0.2, 100, 3000, 200), (0.5, 100, 1000, 200), (0.7, 100, 600, 60))  # (π, n_P, n_U, n_N)
RANKERS = ("logistic", "bagged_trees", "cvir", "kernel_cvir", "stacked")


def scores(
    gap: float, prior: float, n_p: int, n_u: int, n_n: int, *, picked: float = 0.0
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Scores of P, U and N, `REPEATS` times; N is drawn by its score where `picked` is not 0."""
    r = np.random.default_rng(0)
    for _ in range(REPEATS):
        pool = r.normal(size=20 * n_n)
        chance = np.exp(picked * pool)
        negative = r.choice(pool, n_n, replace=False, p=chance / chance.sum())
        yield r.normal(gap, 1, n_p), r.normal(gap * (r.random(n_u) < prior), 1), negative


def study_share() -> None:
    for case in SHARES:
        prior, found, by_bbe = case[1], [], []
        for p, u, n in scores(*case):
            estimate = adjusted_count(p, u, n)
            found.append((estimate.value, estimate.low <= prior <= estimate.high, estimate.high - estimate.low))
            by_bbe.append(bbe(p, u).value)
        value, inside, width = np.array(found, dtype=float).T
        error, of_bbe = (np.sqrt(np.mean((np.asarray(x) - prior) ** 2)) for x in (value, by_bbe))
        print(
            f"{case}: bias {value.mean() - prior:+.3f}, error {error:.3f}, interval covers {inside.mean():.2f} "
            f"at width {width.mean():.2f}; BBE {np.mean(by_bbe) - prior:+.3f}, {of_bbe:.3f}"
        )


def study_random() -> None:
    for case in SHARES:
        line = []
        for picked in PICKED:
            kept = [negatives_look_random(*sample) for sample in scores(*case, picked=picked)]
            line.append(f"exp({picked:g} f): {1 - np.mean(kept):.2f}")
        print(f"{case}: refused {', '.join(line)}")


def modes(seed: int, prior: float, n_p: int, n_u: int, n_n: int) -> tuple[NDArray[np.float32], Bools, Bools, Bools]:
    """Rows of four overlapping modes of each class in ten dimensions, s, the negatives and the truth."""
    r, centres = np.random.default_rng(seed), np.random.default_rng(99).normal(size=(8, 10))
    y = np.concatenate([np.ones(n_p, dtype=bool), r.random(n_u) < prior, np.zeros(n_n, dtype=bool)])
    x = centres[2 * r.integers(4, size=len(y)) + ~y] + 0.9 * r.normal(size=(len(y), 10))
    row = np.arange(len(y))
    return x.astype(np.float32), row < n_p, row >= n_p + n_u, y


def study_ranking(seeds: int = 5) -> None:
    for case in RANKINGS:
        for name in RANKERS:
            found = []
            for seed in range(seeds):
                x, s, negative, y = modes(seed, *case)
                free = ~(s | negative)
                once: dict[str, Any] = {"repeats": 1} if name in RANKERS[2:] else {}
                line = []
                for negatives in (negative, None):
                    pseudo = pseudo_label(x, s, method=name, negatives=negatives, **once)
                    score = pseudo.probability.double().numpy()
                    line += [auc(score[free & y], score[free & ~y])[0], pseudo.prior]
                found.append(line)
            with_auc, with_prior, auc_alone, prior_alone = np.mean(found, axis=0)
            print(f"{case} {name}: AUC {auc_alone:.3f} → {with_auc:.3f}, π̂ {prior_alone:.2f} → {with_prior:.2f}")


if __name__ == "__main__":
    {"share": study_share, "random": study_random, "ranking": study_ranking}[sys.argv[1]]()
