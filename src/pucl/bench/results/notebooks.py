"""The numbers in the authors' notebooks: curves over λ, γ, π and epochs that the paper shows as figures only.

They come from github.com/anishacharya/Contrastive-Positive-Unlabled-PU-Learning as of 2024-02-18, and from two older
versions of its notebooks. Every point names its cell. The notebooks call all of them validation or test accuracy and
name no readout but in `heads-over-gamma` and for puPL; docs/reproduction.md says what is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from pucl.bench.results.published import stored_rows
from pucl.errors import unknown_name

NOTEBOOK, FIGURE = "notebook", "figure"
GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "mcl-over-mixing": "mCL over λ, for several n_P; also with every label",
        "dcl-over-prior": "dCL over the given prior, for several n_P",
        "objectives-over-gamma": "ssCL, sCL-PU, puCL and puNCE over γ; on CIFAR-0 300 epochs",
        "objectives-over-gamma-200-epochs": "ssCL, sCL-PU and puCL over γ on CIFAR-0, 200 epochs",
        "objectives-over-gamma-first": "ssCL, sCL-PU, puCL, nnPU and puPL over γ on CIFAR-0; epochs not given",
        "objectives-over-gamma-rerun": "ssCL, sCL-PU and puCL over γ on ImageNet-II, taken out again",
        "baselines-over-gamma": "nnPU, P3mix-c and vPU from raw rows over γ",
        "heads-over-gamma": "heads on frozen embeddings of puCL over γ",
        "hardness": "ssCL, sCL with every label and puCL over γ on CIFAR-easy, -medium and -hard",
        "punce-over-prior": "puNCE over the given prior, for several γ; on CIFAR-0 200 epochs",
        "punce-benchmark": "puNCE on CIFAR-I and II; the prior and the readout are not given",
        "knn-over-epochs": "kNN over the epochs, read off two figures to about 0.3 points",
        "knn-best-epoch": "the highest point of the same curves, read off to about 0.1 points",
    }
)


@dataclass(frozen=True)
class Point:
    """One number of a notebook: accuracy in per cent, and what it was measured at as far as the notebook says.

    Attributes:
        method: as in the tables of the paper; a head on puCL is ``puCL/…``.
        task: our name of it. ``cifar3`` is what the code calls cifar10.1 and the caption of the figure CIFAR-III.
        accuracy: as typed in the cell, or read off a figure.
        std: standard deviation.
        source: ``"notebook"`` if the number stands in the code of a cell, ``"figure"`` if it was read off a picture.
        setting: ``"single-set"``, or ``"overlapping"`` for what the authors call case control: U is every training row.
        n_labelled: number of labelled rows; from the settings where a cell has γ only.
        gamma: as typed beside the numbers. It is n_P / n_U, or the share of all rows: the notebooks use both.
        mixing: λ of mCL.
        prior: the given prior.
        epoch: of a curve over epochs.
        origin: notebook and cell, counted from 0.
    """

    method: str
    task: str
    accuracy: float
    std: float | None
    source: str
    setting: str | None
    n_labelled: int | None
    gamma: float | None
    mixing: float | None
    prior: float | None
    epoch: int | None
    origin: str


@cache
def points(group: str) -> tuple[Point, ...]:
    """The numbers of a group of `GROUPS`, in the order of the notebook."""
    if group not in GROUPS:
        raise unknown_name("group", group, GROUPS)
    return tuple(_point(row) for row in stored_rows() if row["table"] == group and row["source"] in (NOTEBOOK, FIGURE))


def _point(row: Mapping[str, str]) -> Point:
    return Point(
        method=row["method"],
        task=row["task"],
        accuracy=float(row["accuracy"]),
        std=_number(row["std"]),
        source=row["source"],
        setting=row["setting"] or None,
        n_labelled=int(row["n_labelled"]) if row["n_labelled"] else None,
        gamma=_number(row["gamma"]),
        mixing=_number(row["mixing"]),
        prior=_number(row["prior"]),
        epoch=int(row["epoch"]) if row["epoch"] else None,
        origin=row["origin"],
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
