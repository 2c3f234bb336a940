"""Old names in grids, goals and stored results, and the names they have now."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

GRID: Mapping[str, str] = MappingProxyType({"top": "readout", "tops": "readouts"})
TEACHER: Mapping[str, str] = MappingProxyType({"top": "readout"})  # also of goals and of --only
SETTINGS: Mapping[str, str] = MappingProxyType({"most": "max_rows"})  # of baselines
METRICS: Mapping[str, str] = MappingProxyType(
    {"told_prior": "given_prior", "encoder_told_prior": "encoder_given_prior"}
)
# What grids called a readout while their "auto" was kernel_cvir, by name and labeller.
READOUTS: Mapping[tuple[str, str], str] = MappingProxyType(
    {("auto", "kernel_cvir"): "kernel_cvir", ("finetune", "kernel_cvir"): "kernel_cvir_finetune"}
)
T = TypeVar("T")


def renamed(table: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    """A table with its old keys, ``{old: new}``, under their new names."""
    return {names.get(name, name): value for name, value in table.items()}
