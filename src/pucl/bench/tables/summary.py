"""What stored lines say: ranks and gaps, error and coverage of π̂, promises against the truth; by role of the table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import rankdata

from pucl.bench.tables.interface import Floats
from pucl.bench.tables.line import FitLine, Measures, Place, TableLine, WeighedPrior
from pucl.bench.tables.methods import METHODS, OURS
from pucl.bench.tables.sets import ROLES
from pucl.bench.tables.suite import newest

Fits = dict[str, dict[Place, Measures]]  # by method and split


@dataclass(frozen=True)
class MethodRow:
    """One method over the splits on which all methods ran.

    Attributes:
        method: its name.
        auc: mean over tables and shares of the mean over seeds.
        auc_rank: mean rank by table and share among methods without the truth, 1 is best; None for those with it.
        f1: like `auc`, at the method's own threshold.
        f1_rank: its rank.
        f1_at_share: like `f1`, with as many rows found as are positive.
        worst_gap: the AUC of the best other method without the truth less the own, where that is largest.
        worst_table: the table where it is.
        cpu_seconds: mean over splits.
    """

    method: str
    auc: float
    auc_rank: float | None
    f1: float
    f1_rank: float | None
    f1_at_share: float
    worst_gap: float | None
    worst_table: str | None
    cpu_seconds: float


@dataclass(frozen=True)
class PriorRow:
    """What one estimator says of π from the scores of one method.

    Attributes:
        method: whose scores.
        estimator: of π.
        estimates: fits that gave an estimate.
        bounds: fits that gave only an upper bound.
        error: mean |π̂ − π| over all fits, a bound taken as π̂.
        bias: mean π̂ − π over all fits.
        error_of_estimates: mean error of the estimates alone.
        held: share of intervals that hold π and of bounds that are not below it; None if there are neither.
    """

    method: str
    estimator: str
    estimates: int
    bounds: int
    error: float
    bias: float
    error_of_estimates: float | None
    held: float | None


@dataclass(frozen=True)
class PromiseRow:
    """Promised less true recall, precision or accuracy on U, over the fits that show it as an estimate."""

    method: str
    what: str
    fits: int
    mean: float
    largest: float


@dataclass(frozen=True)
class SetRow:
    """One table: means over shares and seeds of its sizes and of the AUC by method."""

    table: str
    rows: float
    columns: float
    labelled: float
    pi: float
    auc: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """Methods on the splits on which all of them ran.

    Attributes:
        splits: how many.
        ranking: a row per method, best rank first, then those that know the truth.
        sets: a row per table.
    """

    splits: int
    ranking: list[MethodRow]
    sets: list[SetRow]


@dataclass(frozen=True)
class RoleSummary:
    """What lines say of the tables of one role.

    Attributes:
        role: development or held back.
        comparisons: of the methods that ran on at least half as many splits as the one that ran on most; if pucl is
            not among them, a second one with it.
        priors: of those methods, all their fits.
        promises: of those methods, all their fits.
    """

    role: str
    comparisons: list[Comparison]
    priors: list[PriorRow]
    promises: list[PromiseRow]


def summarise(lines: Iterable[TableLine]) -> list[RoleSummary]:
    """A summary for every role that has lines."""
    by_role: dict[str, Fits] = {role: {} for role in ROLES}
    for line in newest(lines).values():
        if isinstance(line.metrics, Measures):
            by_role.setdefault(line.role, {}).setdefault(line.cell.method, {})[line.cell.place] = line.metrics
    return [_of_role(role, fits) for role, fits in by_role.items() if fits]


def failures(lines: Iterable[TableLine]) -> list[FitLine]:
    """The lines of methods that failed and did not succeed later."""
    return [line for line in newest(lines).values() if isinstance(line.metrics, str)]


def knows(method: str) -> str:
    """What a method is told of the truth; empty for one that competes, and for one that is not of this suite."""
    return METHODS[method].knows if method in METHODS else ""


def compare(fits: Fits, methods: Sequence[str]) -> Comparison | None:
    """The methods on the splits on which all of them ran; None if there are none."""
    splits = sorted(set.intersection(*(set(fits[method]) for method in methods)))
    if not splits:
        return None
    return Comparison(len(splits), _ranking(fits, methods, splits), _sets(fits, methods, splits))


def priors(fits: Fits, methods: Sequence[str]) -> list[PriorRow]:
    """A row for every method and estimator."""
    said: dict[tuple[str, str], list[tuple[WeighedPrior, float]]] = {}
    for method in methods:
        for found in fits[method].values():
            for estimator, prior in found.priors.items():
                said.setdefault((method, estimator), []).append((prior, found.pi))
    return [_prior_row(*names, group) for names, group in said.items()]


def is_bound(prior: WeighedPrior, estimator: str) -> bool:
    """Whether a π̂ is only an upper bound. Lines of pucl that do not say it have a bound where low = 0, π̂ = high."""
    if prior.is_bound is not None:
        return prior.is_bound
    return estimator == OURS and prior.low == 0 and prior.value == prior.high


def promises(fits: Fits, methods: Sequence[str]) -> list[PromiseRow]:
    """A row for every method and figure that it shows as an estimate."""
    gaps: dict[tuple[str, str], list[float]] = {}
    for method in methods:
        for found in fits[method].values():
            for what, value in found.promised.items():
                gaps.setdefault((method, what), []).append(value - found.true[what])
    return [PromiseRow(*names, len(group), fmean(group), max(group)) for names, group in gaps.items()]


def _of_role(role: str, fits: Fits) -> RoleSummary:
    most = max(map(len, fits.values()))
    listed = sorted(method for method, found in fits.items() if len(found) >= most / 2)
    subsets = [listed, [*listed, OURS]] if OURS in fits and OURS not in listed else [listed]
    compared = [comparison for subset in subsets if (comparison := compare(fits, subset)) is not None]
    return RoleSummary(role, compared, priors(fits, subsets[-1]), promises(fits, subsets[-1]))


def _ranking(fits: Fits, methods: Sequence[str], splits: Sequence[Place]) -> list[MethodRow]:
    fair = [at for at, method in enumerate(methods) if not knows(method)]
    found = {what: _matrix(fits, methods, splits, what) for what in ("auc", "f1", "f1_at_share", "cpu_seconds")}
    places = {what: _means(values, [(split.table, split.share) for split in splits]) for what, values in found.items()}
    auc_ranks, f1_ranks = (_ranks(places[what], fair) for what in ("auc", "f1"))
    means = {what: values.mean(axis=0).tolist() for what, values in places.items()}
    seconds = found["cpu_seconds"].mean(axis=0).tolist()
    gaps = _worst_gaps(_means(found["auc"], [split.table for split in splits]), fair)
    tables = sorted({split.table for split in splits})
    rows = []
    for at, method in enumerate(methods):
        gap, where = gaps.get(at, (None, None))
        row = MethodRow(
            method, means["auc"][at], auc_ranks.get(at), means["f1"][at], f1_ranks.get(at), means["f1_at_share"][at],
            gap, None if where is None else tables[where], seconds[at],
        )  # fmt: skip
        rows.append(row)
    return sorted(rows, key=lambda row: (row.auc_rank is None, row.auc_rank or 0.0, -row.auc, row.method))


def _sets(fits: Fits, methods: Sequence[str], splits: Sequence[Place]) -> list[SetRow]:
    tables = [split.table for split in splits]
    auc = _means(_matrix(fits, methods, splits, "auc"), tables).tolist()
    rows, columns, labelled, pi = (
        _means(_matrix(fits, methods[:1], splits, what), tables)[:, 0].tolist()
        for what in ("rows", "columns", "labelled", "pi")
    )
    return [
        SetRow(table, rows[at], columns[at], labelled[at], pi[at], dict(zip(methods, auc[at], strict=True)))
        for at, table in enumerate(dict.fromkeys(tables))
    ]


def _matrix(fits: Fits, methods: Sequence[str], splits: Sequence[Place], what: str) -> Floats:
    """One measure, splits as rows and methods as columns."""
    return np.array([[getattr(fits[method][split], what) for method in methods] for split in splits], dtype=float)


def _means(values: Floats, groups: Sequence[object]) -> Floats:
    """Means of the rows of every group, groups in the order in which they begin."""
    order = list(dict.fromkeys(groups))
    of_row = np.array([order.index(group) for group in groups])
    return np.array([values[of_row == number].mean(axis=0) for number in range(len(order))])


def _ranks(values: Floats, fair: Sequence[int]) -> dict[int, float]:
    """Mean ranks of the columns that compete, 1 for the highest value; equal values share the mean of their ranks."""
    if not fair:
        return {}
    ranks = rankdata(-np.round(values[:, fair], 9), axis=1).mean(axis=0)
    return dict(zip(fair, ranks.tolist(), strict=True))


def _worst_gaps(auc: Floats, fair: Sequence[int]) -> dict[int, tuple[float, int]]:
    """By column that competes: the largest lead of the best other one, and in which row; empty if there is no other."""
    worst = {}
    for at in fair if len(fair) > 1 else ():
        gaps = auc[:, [other for other in fair if other != at]].max(axis=1) - auc[:, at]
        worst[at] = float(gaps.max()), int(gaps.argmax())
    return worst


def _prior_row(method: str, estimator: str, said: list[tuple[WeighedPrior, float]]) -> PriorRow:
    bounds = [is_bound(prior, estimator) for prior, _ in said]
    estimates = [prior for (prior, _), bound in zip(said, bounds, strict=True) if not bound]
    held = [prior.bounded if bound else prior.covered for (prior, _), bound in zip(said, bounds, strict=True)]
    known = [bool(each) for each in held if each is not None]
    return PriorRow(
        method, estimator, len(estimates), sum(bounds), fmean(prior.error for prior, _ in said),
        fmean(prior.value - pi for prior, pi in said),
        fmean(prior.error for prior in estimates) if estimates else None, fmean(known) if known else None,
    )  # fmt: skip
