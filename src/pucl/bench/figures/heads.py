"""Accuracy of heads on the frozen embeddings of puCL over the strength of supervision."""

from collections.abc import Mapping
from types import MappingProxyType

from pucl.bench.figures.sweep import Published, Sweep
from pucl.bench.grid.cells import Cell, Pipeline
from pucl.bench.results.notebooks import Point
from pucl.registry import register

READOUTS: Mapping[str, str] = MappingProxyType(
    {"pupl": "puPL", "nnpu": "nnPU (true π)", "stacked": "ours", "ceiling": "CE* (truth)"}
)
THEIRS: Mapping[str, str] = MappingProxyType(
    {"puCL/puPL": "puPL", "puCL/nnPU": "nnPU (true π)", "puCL/CE": "CE", "puCL/vPU": "vPU"}
)


@register("figures", reference="fig:pupl_lp", inputs=("image",))
def heads() -> Sweep:
    """Accuracy of puPL, nnPU and our labeller with linear heads on puCL's embeddings, over γ."""
    only = ("task=cifar_hard", "objective=pucl", f"readout={','.join(READOUTS)}")
    theirs = Published("heads-over-gamma", _theirs)
    return Sweep("Heads on frozen embeddings of puCL", only, curve=_ours, without_labels=(), published=(theirs,))


def _ours(cell: Cell) -> str:
    name = cell.readout.name if isinstance(cell, Pipeline) else cell.method
    return READOUTS.get(name, name)


def _theirs(point: Point) -> str | None:
    return THEIRS.get(point.method)
