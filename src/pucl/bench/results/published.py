"""The paper's own numbers, and which of them to compare with one of our cells."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from pucl.bench.grid.cells import KNN, UNTRAINED, Baseline, Cell, Pipeline, option_words
from pucl.errors import Described, InputError, bad_argument, one_line

PAPER = "paper"  # the source of the numbers in the paper's tables
TABLES = ("pu-benchmark-1", "downstream-head", "weak-supervision-knn", "pu-benchmark-2")
PRETRAINED = "pu-pretrained"  # our own table: encoders with published weights and texts, not in the paper
PRETRAINED_COLUMNS = tuple((task, 1000) for task in ("cifar1", "cifar2", "imagenet2", "alzheimer", "news1"))
METHODS: Mapping[str, str] = MappingProxyType(
    {
        "upu": "uPU", "nnpu": "nnPU", "nnpu_mixup": "nnPU (MixUp)", "self_pu": "Self-PU", "pan": "PAN", "vpu": "vPU",
        "mixpul": "MixPUL", "pulns": "puLNS", "p3mix_e": "P3mix-e", "p3mix_c": "P3mix-c", "rank_pruning": "RP",
        "pusb": "PUSB", "pubn": "PUbN", "apu": "aPU", "imbpu": "ImbPU", "dist_pu": "Dist-PU", "pico": "PiCO",
        "wconpu": "WConPU",
    }
)  # fmt: skip
OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {"sscl": "ssCL", "scl_pu": "sCL-PU", "pucl": "puCL", "punce": "puNCE", "dcl": "dCL", "mcl": "mCL", "scl": "sCL"}
)
READOUTS: Mapping[str, str] = MappingProxyType({"pupl": "puPL", "nnpu": "nnPU", "nnpu_auto": "nnPU"})
# Marked in the paper as run with the true class prior; vPU itself needs none.
WITH_PRIOR = ("uPU", "nnPU", "nnPU (MixUp)", "Self-PU", "vPU", "WConPU", "puNCE(puPL)", "puNCE", "dCL")
LENET, CNN7, CNN13 = "lenet5", "cnn7", "cnn13"
ENCODERS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        **{(table, task): LENET for table in TABLES[:2] for task in ("fmnist1", "fmnist2")},
        **{(table, task): CNN7 for table in TABLES[:2] for task in ("cifar1", "cifar2", "stl1", "stl2")},
        ("weak-supervision-knn", "mnist1"): "mlp",
        ("weak-supervision-knn", "cifar3"): "resnet18",
        **{("pu-benchmark-2", task): CNN13 for task in ("cifar3", "svhn1")},
        ("pu-benchmark-2", "stl3"): "resnet18",
        ("pu-benchmark-2", "alzheimer"): "resnet50",
    }
)


@dataclass(frozen=True)
class Published:
    """One number of the paper: accuracy and standard deviation in per cent; π was given to the method or not."""

    method: str
    accuracy: float
    std: float
    with_prior: bool
    shown: str  # the accuracy as printed there


_NAME, _ANY = re.compile(r".+"), re.compile(r".*")
_COUNT, _NUMBER = re.compile(r"[0-9]{1,9}"), re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_OR_NONE = re.compile(rf"({_NUMBER.pattern})?")
COLUMNS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        **dict.fromkeys(("table", "method", "task", "source"), _NAME),
        "n_labelled": re.compile(rf"({_COUNT.pattern})?"),
        "accuracy": _NUMBER,
        **dict.fromkeys(("std", "gamma", "mixing", "prior"), _OR_NONE),
        "epoch": re.compile(rf"({_COUNT.pattern})?"),
        **dict.fromkeys(("setting", "origin"), _ANY),
    }
)
OWNER, AGAIN = "pucl bench", "install pucl again"

Column = tuple[str, int]  # task, number of labelled positives


@cache
def stored_rows() -> tuple[Mapping[str, str], ...]:
    """The rows of `published.csv`; their `source` is the paper or, for `pucl.bench.results.notebooks`, a notebook."""
    path = files("pucl.bench.results").joinpath("published.csv")
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}; {AGAIN}", owner=OWNER) from None
    for number, row in enumerate(rows, start=2):
        wrong = next((name for name, form in COLUMNS.items() if not form.fullmatch(row.get(name) or "")), None)
        if wrong is None and row["source"] == PAPER and row["table"] in TABLES:
            wrong = next((name for name in ("n_labelled", "std") if not row[name]), None)
        if wrong is not None or set(row) != set(COLUMNS):
            allowed = f"a row with a usable {wrong}" if wrong else f"a row of {len(COLUMNS)} columns"
            raise bad_argument(OWNER, f"{path}, row {number},", allowed, Described(f"another; {AGAIN}"))
    return tuple(map(MappingProxyType, rows))


@cache
def published(table: str) -> Mapping[tuple[str, Column], Published]:
    """The numbers of a table by method and column, in the order of the paper."""
    numbers = {}
    for row in stored_rows():
        if row["source"] == PAPER and row["table"] == table:
            method, text = row["method"], row["accuracy"]
            number = Published(method, float(text), float(row["std"]), method in WITH_PRIOR, text)
            numbers[method, (row["task"], int(row["n_labelled"]))] = number
    return MappingProxyType(numbers)


def columns_of(table: str) -> list[Column]:
    """The columns of a table: by the number of labels, then by task in the order of the paper."""
    if table == PRETRAINED:
        return [*PRETRAINED_COLUMNS]
    columns = list(dict.fromkeys(column for _, column in published(table)))
    tasks = list(dict.fromkeys(task for task, _ in columns))
    return sorted(columns, key=lambda column: (column[1], tasks.index(column[0])))


def belongs(table: str, cell: Cell) -> bool:
    """Whether a cell is a result of the kind a table shows; those that vary n_U, π or the epoch are not.

    Encoders with published weights, and of texts, have a table of their own, and are in no other.
    """
    if (
        cell.in_own_track != (table == PRETRAINED)
        or cell.changes
        or (cell.place.task, cell.place.n_labelled) not in columns_of(table)
    ):
        return False
    if isinstance(cell, Baseline):
        return table in ("pu-benchmark-1", "pu-benchmark-2", PRETRAINED)
    if table == PRETRAINED:
        return True
    return (cell.readout.head == KNN) == (table == "weak-supervision-knn")


def method_name(table: str, cell: Cell) -> str:
    """What a cell is called in a table; the paper's own name where it has one."""
    if isinstance(cell, Baseline):
        return METHODS.get(cell.method, cell.method)
    return _pipeline_name(table, cell, cell.readout.name)


def counterpart(table: str, cell: Cell) -> str | None:
    """The published method a cell is compared with: the same one, or puPL on the same objective for our readouts."""
    if cell.is_reference and table != "weak-supervision-knn":
        return None
    known = {method for method, _ in published(table)}
    own = method_name(table, cell)
    if own in known or isinstance(cell, Baseline):
        return own if own in known else None
    near = _pipeline_name(table, cell, "pupl")
    return near if near in known else None


def _pipeline_name(table: str, cell: Pipeline, readout: str) -> str:
    objective = " ".join((OBJECTIVES.get(cell.objective, cell.objective), *option_words(cell.objective_options)))
    name = READOUTS.get(readout, readout)
    if cell.objective == UNTRAINED:
        return name
    if table == "downstream-head":
        return f"{'pu-sCL' if objective == 'sCL-PU' else objective}/{name}"
    return objective if table == "weak-supervision-knn" else f"{objective}({name})"
