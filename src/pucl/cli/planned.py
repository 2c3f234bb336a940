"""What a sweep of the benchmark would do, for people."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pucl.bench.run.runner import SweepPlan
    from pucl.bench.tables.suite import TablePlan


def known_hardware(hardware: str | None, stored: Iterable[str]) -> str | None:
    """The hardware that `--hardware` names, if there are results of it."""
    from pucl.errors import bad_argument

    if hardware is not None and hardware not in (names := set(stored)):
        allowed = f"the hardware of stored results: {', '.join(map(repr, sorted(names))) or 'there are none'}"
        raise bad_argument("pucl bench run", "--hardware", allowed, hardware)
    return hardware


def say_would_run(to_do: "SweepPlan | TablePlan") -> None:
    """Print what a sweep would do; cells that would be skipped by their reasons."""
    for cell in to_do.missing:
        typer.echo(f"would run{' again' * (cell.key in to_do.again)}: {cell.name}")
    reasons: dict[str, list[str]] = {}
    for skipped, reason in to_do.skipped:
        reasons.setdefault(reason, []).append(skipped.name)
    for reason, names in reasons.items():
        others = f" and {len(names) - 1} more" * (len(names) > 1)
        typer.echo(f"would skip: {names[0]}{others}: {reason}")
    typer.echo(f"{len(to_do.missing)} to run, {to_do.there} already there, {len(to_do.skipped)} to skip")
