"""The paper's own numbers, and which of them one of our cells is to be compared with."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pucl.bench.grid.cells import KNN, is_baseline, is_reference

TABLES = ("pu-benchmark-1", "downstream-head", "weak-supervision-knn", "pu-benchmark-2")
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
TOPS: Mapping[str, str] = MappingProxyType({"pupl": "puPL", "nnpu": "nnPU", "nnpu_auto": "nnPU"})
# Marked in the paper as run with the true class prior; vPU itself asks for none.
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


Column = tuple[str, int]  # task, number of labelled positives


@cache
def published(table: str) -> Mapping[tuple[str, Column], Published]:
    """The numbers of a table by method and column, in the order of the paper."""
    content = files("pucl.bench.results").joinpath("published.csv").read_text(encoding="utf-8")
    found = {}
    for row in csv.DictReader(content.splitlines()):
        if row["table"] == table:
            method, text = row["method"], row["accuracy"]
            number = Published(method, float(text), float(row["std"]), method in WITH_PRIOR, text)
            found[method, (row["task"], int(row["n_labelled"]))] = number
    return MappingProxyType(found)


def columns_of(table: str) -> list[Column]:
    """The columns of a table: by the number of labels, then by task in the order of the paper."""
    columns = list(dict.fromkeys(column for _, column in published(table)))
    tasks = list(dict.fromkeys(task for task, _ in columns))
    return sorted(columns, key=lambda column: (column[1], tasks.index(column[0])))


def belongs(table: str, config: Mapping[str, Any]) -> bool:
    """Whether a cell is a result of the kind a table shows."""
    if (config["task"], config["n_labelled"]) not in columns_of(table):
        return False
    if is_baseline(config):
        return table in ("pu-benchmark-1", "pu-benchmark-2")
    return bool(config["head"] == KNN) == (table == "weak-supervision-knn")


def method_name(table: str, config: Mapping[str, Any]) -> str:
    """What a cell is called in a table; the paper's own name where it has one."""
    if is_baseline(config):
        return METHODS.get(config["method"], str(config["method"]))
    objective = OBJECTIVES.get(config["objective"], str(config["objective"]))
    top = TOPS.get(config["top"], config["top"])
    if table == "downstream-head":
        return f"{'pu-sCL' if objective == 'sCL-PU' else objective}/{top}"
    return objective if table == "weak-supervision-knn" else f"{objective}({top})"


def counterpart(table: str, config: Mapping[str, Any]) -> str | None:
    """The published method a cell is compared with: the same one, or puPL on the same objective for tops of our own."""
    if is_reference(config) and table != "weak-supervision-knn":
        return None
    known = {method for method, _ in published(table)}
    own = method_name(table, config)
    if own in known or is_baseline(config):
        return own if own in known else None
    near = method_name(table, {**config, "top": "pupl"})
    return near if near in known else None
