"""Leaks: columns that give the label away, and labelled rows that stand among the unlabelled ones again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.numerics.auc import Floats, auc

Bools = NDArray[np.bool_]
GIVEN_AWAY = 0.995  # AUC of P against U; with a share π of positives in U an honest column has at most 1 − π/2
FEWEST = 5  # labelled and unlabelled rows from which a column can be accused
MOST_P, MOST_U = 2000, 8000  # rows that columns are tried on
NUMBERS = 1 << 22  # values tried in all
REPEATED = 0.05  # share of P that stands in U again
NAMED = 3  # columns that a message names


@dataclass(frozen=True)
class Leaks:
    """What looks like a leak of the label.

    Attributes:
        columns: that tell P from U alone, with the AUC of each, the largest first.
        repeated: how many labelled rows stand in U again, equal in every column that is given (columns of ids are not);
            0 where this is common in the data.
        labelled: how many labelled rows there are.
    """

    columns: tuple[tuple[str, float], ...]
    repeated: int
    labelled: int

    @property
    def accused(self) -> str:
        """The columns in words: "column 'a' alone tells", "columns 'a', 'b' alone tell"."""
        names = ", ".join(repr(name) for name, _ in self.columns[:NAMED])
        more = f" and {len(self.columns) - NAMED} more" if len(self.columns) > NAMED else ""
        return f"column {names} alone tells" if len(self.columns) == 1 else f"columns {names}{more} alone tell"

    @property
    def messages(self) -> tuple[str, ...]:
        """What was found, a sentence each, with what to do."""
        found = []
        if self.columns:
            found.append(
                f"Possible leak: {self.accused} labelled from unlabelled rows (AUC {self.columns[0][1]:.3f}). Either "
                "this was made from the label, and every estimate is too good; or no positives are left among the "
                "unlabelled rows. Leave out what is only known of labelled rows, and fit again."
            )
        if self.repeated:
            found.append(
                f"Possible leak: {self.repeated:,} of {self.labelled:,} labelled rows have an equal row among the "
                "unlabelled ones, in every column that is used. Where it is the same case twice, remove it from the "
                "unlabelled rows: it counts as not known to be positive, which distorts every estimate. Equal rows of "
                "different cases stay."
            )
        return tuple(found)


def find_leaks(
    rows: Any,
    labelled: Bools,
    *,
    names: Sequence[str] | None = None,
    categories: Sequence[int] = (),
    negative: Bools | None = None,
    seed: int = 0,
) -> Leaks:
    """Columns that give the label away, and rows of P that are in U again.

    A number is tried as it is, both ways round; a category by the share of P among the other rows that have it; a
    column with gaps also by whether a value is missing. Rows that stand in the data twice are common where columns
    have few values: repeated rows of P are reported only if U repeats itself less than half as often.

    Args:
        rows: (n, …) numbers, NaN where missing; images are only searched for repeated rows.
        labelled: s, (n,).
        names: of the columns; their numbers when not given.
        categories: columns that hold codes.
        negative: confirmed negatives, (n,); they are left out.
        seed: of the rows that columns are tried on.
    """
    values = np.asarray(rows)
    unlabelled = ~labelled if negative is None else ~labelled & ~negative
    repeated = _repeated(values, np.flatnonzero(labelled), np.flatnonzero(unlabelled))
    columns: list[tuple[str, float]] = []
    if values.ndim == 2 and min(labelled.sum(), unlabelled.sum()) >= FEWEST:
        columns = _columns(values, labelled, unlabelled, names, frozenset(categories), seed)
    return Leaks(tuple(columns), repeated, int(labelled.sum()))


def _columns(
    values: NDArray[Any],
    labelled: Bools,
    unlabelled: Bools,
    names: Sequence[str] | None,
    categories: frozenset[int],
    seed: int,
) -> list[tuple[str, float]]:
    rng, most = np.random.default_rng(seed), max(100, NUMBERS // values.shape[1])
    p, u = (
        rng.permutation(np.flatnonzero(kind))[: min(limit, most)]
        for kind, limit in ((labelled, MOST_P), (unlabelled, MOST_U))
    )
    some = values[np.concatenate([p, u])]
    s = np.arange(len(some)) < len(p)
    areas = [(j, _area(some[:, j], s, category=j in categories)) for j in range(some.shape[1])]
    leaking = sorted((each for each in areas if each[1] >= GIVEN_AWAY), key=lambda each: -each[1])
    return [(f"x{j}" if names is None else names[j], area) for j, area in leaking]


def _area(column: NDArray[Any], s: Bools, *, category: bool) -> float:
    """The largest AUC of P against U that the column alone has."""
    missing = np.isnan(column)
    score = _share_of_others(column, s) if category else np.asarray(column, np.float64)
    if missing.any() and not category:
        score = np.where(missing, 0.0 if missing.all() else np.nanmedian(score), score)
    of_score, of_gaps = (auc(each[s], each[~s])[0] for each in (score, missing.astype(np.float64)))
    return max(of_score, of_gaps, 1 - of_gaps, 0.0 if category else 1 - of_score)


def _share_of_others(codes: NDArray[Any], s: Bools) -> Floats:
    """The share of P among the other rows of the same category; that of all rows where there are none."""
    _, place = np.unique(codes, return_inverse=True)
    n, n_p = np.bincount(place)[place] - 1, np.bincount(place, weights=s)[place] - s
    return np.asarray(np.where(n > 0, n_p / np.maximum(n, 1), s.mean()))


def _repeated(values: NDArray[Any], p: NDArray[np.intp], u: NDArray[np.intp]) -> int:
    """How many rows of P are in U again; 0 where they are few, or rows of U repeat each other about as often."""
    rows = np.ascontiguousarray(values).reshape(len(values), -1)
    in_u: dict[int, int] = {}
    for i in u:
        mark = hash(rows[i].tobytes())
        in_u[mark] = in_u.get(mark, 0) + 1
    twins = sum(hash(rows[i].tobytes()) in in_u for i in p)
    of_u = sum(count for count in in_u.values() if count > 1) / max(1, len(u))
    share = twins / max(1, len(p))
    return twins if share >= max(REPEATED, 2 * of_u) and twins > 1 else 0
