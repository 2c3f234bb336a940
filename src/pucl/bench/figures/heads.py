"""Accuracy of heads on the frozen embeddings of puCL over the strength of supervision."""

from collections.abc import Mapping
from types import MappingProxyType

from pucl.bench.figures.picture import Panel
from pucl.bench.figures.sweep import ACCURACY, Lines, Published, Sweep, published
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.notebooks import Point
from pucl.registry import register

CE, CE_MIXUP, NNPU, MIXUP = "CE", "CE + MixUp", "nnPU (true π)", "nnPU + MixUp (true π)"
VPU, P3MIX, PUPL = "vPU", "P3Mix-C", "puPL"
READOUTS: Mapping[str, str] = MappingProxyType(
    {
        "ceiling": "CE* (truth)", "naive_head": CE, "naive_mixup_head": CE_MIXUP, "nnpu": NNPU,
        "nnpu_mixup_head": MIXUP, "vpu_head": VPU, "p3mix_c_head": P3MIX, "pupl": PUPL, "stacked": "ours",
    }
)  # fmt: skip
THEIRS: Mapping[str, str] = MappingProxyType(
    {
        "puCL/CE": CE, "puCL/nnPU": NNPU, "puCL/nnPU (MixUp)": MIXUP, "puCL/vPU": VPU, "puCL/P3mix-c": P3MIX,
        "puCL/puPL": PUPL, "puCL/CE (MixUp)": CE_MIXUP,
    }
)  # fmt: skip


@register("figures", reference="fig:pupl_lp", inputs=("image",))
def heads() -> Sweep:
    """Accuracy of linear heads on puCL's embeddings over γ: baselines, puPL, ours; the authors' apart."""
    only = ("task=cifar_hard", "objective=pucl", f"readout={','.join(READOUTS)}")
    return Sweep(
        "Heads on frozen embeddings of puCL", only, curve=_ours, more=_authors, readout="linear heads", height=4.0
    )


def _ours(cell: Cell) -> str:
    name = cell.readout.name if isinstance(cell, Pipeline) else cell.method
    return READOUTS.get(name, name)


def _theirs(point: Point) -> str | None:
    return THEIRS.get(point.method)


def _authors(_: Lines) -> tuple[Panel, ...]:
    curves = published(Published("heads-over-gamma", _theirs), "cifar_hard")
    return (Panel("CIFAR-hard, the authors", "γ as they give it", ACCURACY, tuple(curves)),)
