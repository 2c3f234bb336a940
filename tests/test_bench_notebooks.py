"""The numbers of the authors' notebooks: complete, typed, apart from the paper's tables, and what they say together."""

import hashlib
from collections import Counter

import pytest

from pucl.bench.results.notebooks import GROUPS, Point, points
from pucl.bench.results.published import TABLES, published, stored_rows
from pucl.errors import InputError
from pucl.registry import entries

COUNTS = {
    "mcl-over-mixing": 97,
    "dcl-over-prior": 44,
    "objectives-over-gamma": 80,
    "objectives-over-gamma-200-epochs": 12,
    "objectives-over-gamma-first": 30,
    "objectives-over-gamma-rerun": 10,
    "baselines-over-gamma": 24,
    "heads-over-gamma": 63,
    "hardness": 18,
    "punce-over-prior": 53,
    "punce-benchmark": 4,
    "knn-over-epochs": 96,
    "knn-best-epoch": 10,
}


def chosen(group: str, **wanted: object) -> list[Point]:
    return [point for point in points(group) if all(getattr(point, key) == value for key, value in wanted.items())]


def accuracies(group: str, **wanted: object) -> list[float]:
    return [point.accuracy for point in chosen(group, **wanted)]


def test_every_row_is_the_papers_or_of_a_group() -> None:
    assert {group: len(points(group)) for group in GROUPS} == COUNTS
    sources = Counter(row["source"] for row in stored_rows())
    assert sources == {"paper": 260, "notebook": sum(COUNTS.values()) - 106, "figure": 106}
    assert {row["table"] for row in stored_rows() if row["source"] == "paper"} == set(TABLES)
    with pytest.raises(InputError, match="unknown group 'hardnes': did you mean 'hardness'"):
        points("hardnes")


def test_the_papers_tables_are_unchanged() -> None:
    lines = [
        f"{table},{method},{task},{n},{number.shown},{number.std}"
        for table in TABLES
        for (method, (task, n)), number in published(table).items()
    ]
    assert (
        hashlib.sha256("\n".join(lines).encode()).hexdigest()
        == "5ca6e0dd8080c10b7047ce96d100efa763ef8e4bf9535a54c4cc51dbc4092e80"
    )


def test_points_are_of_known_tasks_and_none_is_there_twice() -> None:
    every = [(group, point) for group in GROUPS for point in points(group)]
    assert {point.task for _, point in every} <= set(entries("datasets"))
    assert {point.setting for _, point in every} == {None, "single-set", "overlapping"}
    assert all(40 < point.accuracy < 100 and point.origin for _, point in every)
    assert {group for group, point in every if point.source == "figure"} == {"knn-over-epochs", "knn-best-epoch"}
    keys = Counter((group, p.method, p.task, p.setting, p.n_labelled, p.mixing, p.prior, p.epoch) for group, p in every)
    assert set(keys.values()) == {1}


def test_some_values() -> None:
    (last,) = chosen("mcl-over-mixing", task="cifar3", n_labelled=500, mixing=1.0)
    assert (last.accuracy, last.std, last.gamma) == (77.90, 3.02, 0.01)
    assert accuracies("mcl-over-mixing", task="cifar0", mixing=0.9) == [79.85, 80.7, 83.75, 88.7]
    assert accuracies("dcl-over-prior", task="cifar0", n_labelled=5000) == [82.25, 76.9, 75.3, 73.35, 58.95]
    assert accuracies("hardness", method="puCL", task="cifar_medium") == [90.03, 91.1, 92.13, 93.53]
    assert accuracies("heads-over-gamma", method="puCL/nnPU", task="imagenet2") == [86.27, 89.85, 91.15, 91.59, 94.09]
    assert accuracies("punce-over-prior", task="cifar0", prior=0.9) == [80.2, 81.4, 85.65, 88.15]
    assert [point.epoch for point in chosen("knn-over-epochs", task="imagenet2", gamma=0.5)] == [*range(10, 101, 10)]


def test_the_ends_of_mcl() -> None:
    """The ends of λ are the objectives that mCL mixes, and the notebook has the same numbers for them."""
    of_cifar3 = {
        method: accuracies("objectives-over-gamma", method=method, task="cifar3") for method in ("ssCL", "sCL-PU")
    }
    ends = [accuracies("mcl-over-mixing", method="mCL", task="cifar3", mixing=end) for end in (0.0, 1.0)]
    assert ends == [of_cifar3["ssCL"], of_cifar3["sCL-PU"]]


def test_rows_of_pupl_are_those_of_pucl_at_the_best_epoch() -> None:
    """Hypothesis (a) of docs/reproduction.md, as far as the notebook tells."""
    pucl = chosen("objectives-over-gamma", method="puCL", task="imagenet2", setting="single-set")
    pupl = chosen("heads-over-gamma", method="puCL/puPL", task="imagenet2")
    assert [(p.gamma, p.accuracy) for p in pupl] == [(p.gamma, p.accuracy) for p in pucl if p.gamma]
    hard = accuracies("hardness", method="puCL", task="cifar_hard")
    assert accuracies("heads-over-gamma", method="puCL/puPL", task="cifar_hard") == hard
    row, last = (
        {p.gamma: p.accuracy for p in some} for some in (pucl, chosen("knn-over-epochs", epoch=100, task="imagenet2"))
    )
    best = {p.gamma: p.accuracy for p in chosen("knn-best-epoch", task="imagenet2")}
    assert set(best) == set(last) == {0.0, 0.05, 0.1, 0.2, 0.5}
    assert all(abs(best[gamma] - row[gamma]) < 0.1 for gamma in best)
    assert sum(abs(best[gamma] - row[gamma]) for gamma in best) < sum(abs(last[gamma] - row[gamma]) for gamma in best)


def test_the_row_of_punce_is_the_best_of_five_priors() -> None:
    """Hypothesis (d) of docs/reproduction.md, as far as the notebook tells."""
    best = {n: max(accuracies("punce-over-prior", task="imagenet2", n_labelled=n)) for n in (1000, 2000, 4000, 9000)}
    row = chosen("objectives-over-gamma", method="puNCE (best prior)")
    assert {point.n_labelled: point.accuracy for point in row} == best
    oracle = {point.n_labelled: point.accuracy for point in chosen("punce-over-prior", task="imagenet2", prior=0.488)}
    assert all(best[n] > oracle[n] for n in best)
