"""Importance of the columns of a table: how much worse hidden positives are ranked when a column is shuffled."""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.fitting.average import Average
from pucl.fitting.plan import FitPlan
from pucl.numerics.auc import auc_difference
from pucl.ranking.averaging import Ranked, rank_among
from pucl.ranking.bags import Floats, Rows
from pucl.selection.scores import Estimate

MAX_ROWS = 400  # of P, and of U
FEWEST = 5  # of P, and of U
SHUFFLED = 40_000  # rows that are scored in all: columns × rows × repeats
MAX_REPEATS = 10  # shuffles of a column
PIECE = 1 << 22  # numbers of shuffled rows held at a time
LIGHT = 0.05  # weight below which a ranker is left out


def column_importance(plan: FitPlan, average: Average) -> dict[str, Estimate]:
    """The drop of the AUC of P against U when the values of a column are shuffled among rows, largest first.

        I_j = A − mean_r A_jr

    where A is the AUC of the averaged rankers, and A_jr that after the r-th shuffle of column j, both by models that
    did not see the row. A column stands for all that is made of it: the parts of a date, the dimensions of a text. The
    standard error is that of the difference on the same rows. At most `MAX_ROWS` rows of P and of U are shuffled, and
    a row is scored by a few of the models that did not see it, so that this takes a small part of the fit. Columns
    with the same information replace each other: shuffling one of them costs little.

    Empty where rows are no table, where too few are known, or where no time is left.
    """
    late = plan.deadline is not None and time.perf_counter() > plan.deadline
    used = [each for each in average.ranked if each.weight >= LIGHT]
    rng = np.random.default_rng(plan.options.seed)
    p, u = (rng.permutation(np.flatnonzero(kind.numpy()))[:MAX_ROWS] for kind in (plan.labelled, plan.unlabelled))
    if late or plan.schema.kind != "table" or min(len(p), len(u)) < FEWEST or any(not each.unseen for each in used):
        return {}
    numbers, groups = np.concatenate([p, u]), plan.schema.sources
    rows = np.ascontiguousarray(plan.rows.numpy()[numbers], dtype=np.float32)
    scores = _Scorer(plan, average, used, numbers, rows)
    repeats = int(np.clip(SHUFFLED // (len(groups) * len(rows)), 1, MAX_REPEATS))
    shuffles = [rng.permutation(len(rows)) for _ in range(repeats)]
    drops: dict[str, list[tuple[float, float]]] = {name: [] for name in groups}
    before = _sides(scores.before, len(p))
    for names, changed in _changed(rows, groups, shuffles):
        for name, after in zip(names, scores(changed), strict=True):
            drops[name].append(auc_difference(before, _sides(after, len(p))))
    return dict(sorted(_summary(drops).items(), key=lambda each: -each[1].value))


class _Scorer:
    """The averaged ranks of rows in the place of some training rows, by models that did not see these.

        r = 1 − Π_j (1 − r_j)^w_j

    with the rank r_j among the scores of the rows as they are, see `averaged_score`.
    """

    def __init__(
        self, plan: FitPlan, average: Average, used: Sequence[Ranked], numbers: NDArray[np.intp], rows: Rows
    ) -> None:
        self.plan, self.average, self.used, self.numbers = plan, average, used, numbers
        self.references = [np.sort(score[0]) for score in self._scores(rows[None])]
        self.before = self(rows[None])[0]

    def __call__(self, rows: Rows) -> Floats:
        """Averaged ranks (k, m) of rows (k, m, c)."""
        tails = np.zeros(rows.shape[:2])
        for each, score, reference in zip(self.used, self._scores(rows), self.references, strict=True):
            rank = np.minimum(rank_among(reference, score), 1 - 0.25 / len(reference))
            tails += each.weight * np.log1p(-rank)
        return np.asarray(-np.expm1(tails))

    def _scores(self, rows: Rows) -> Iterator[Floats]:
        views = {"columns": rows}
        if any(each.takes == "features" for each in self.used):
            flat = self.plan.schema.features(torch.from_numpy(rows.reshape(-1, rows.shape[2]))).numpy()
            standard = ((flat - self.average.mean) / self.average.scale).astype(np.float32)
            views["features"] = standard.reshape(*rows.shape[:2], -1)
        for each in self.used:
            if each.unseen is not None:
                yield each.unseen(self.numbers, views[each.takes])


def _changed(
    rows: Rows, groups: dict[str, tuple[int, ...]], shuffles: Sequence[NDArray[np.intp]]
) -> Iterator[tuple[list[str], Rows]]:
    """Names of columns and rows (k, m, c) in which these are shuffled, some at a time."""
    jobs = [(name, shuffle) for name in groups for shuffle in shuffles]
    step = max(1, PIECE // rows.size)
    for start in range(0, len(jobs), step):
        part = jobs[start : start + step]
        changed = np.repeat(rows[None], len(part), axis=0)
        for k, (name, shuffle) in enumerate(part):
            columns = list(groups[name])
            changed[k][:, columns] = rows[shuffle][:, columns]
        yield [name for name, _ in part], changed


def _sides(score: Floats, n_p: int) -> tuple[Floats, Floats]:
    return score[:n_p], score[n_p:]


def _summary(drops: dict[str, list[tuple[float, float]]]) -> dict[str, Estimate]:
    """The mean over the shuffles; its error is that of one, since all have the same rows."""
    return {
        name: Estimate(float(np.mean([value for value, _ in each])), float(np.mean([error for _, error in each])))
        for name, each in drops.items()
    }
