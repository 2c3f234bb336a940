"""``pucl cache``: what the cache of embeddings holds, and how to empty it."""

import json
from typing import Annotated

import typer

from pucl.cli.options import AsJson


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything that is held.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the cache of embeddings holds, or empty it. PUCL_CACHE names its folder; PUCL_CACHE=off turns it off.

    Example: pucl cache --clear
    """
    from pucl.cache import LARGEST, cache_path, held
    from pucl.cache import clear as clear_cache

    path = cache_path()
    if clear:
        freed = clear_cache()
        typer.echo(json.dumps({"freed": freed}) if as_json else f"{freed / 1e6:,.1f} MB freed.")
        return
    size = path.stat().st_size if path is not None and path.is_file() else 0
    entries = held()
    if as_json:
        rows = [{"encoder": each.name, "identity": each.identity, "rows": each.rows} for each in entries]
        typer.echo(json.dumps({"path": None if path is None else str(path), "bytes": size, "encoders": rows}))
        return
    if path is None:
        typer.echo("The cache of embeddings is off (PUCL_CACHE=off).")
        return
    typer.echo(f"{path}: {size / 1e6:,.1f} MB of at most {LARGEST / 1e6:,.0f} MB")
    for each in entries:
        typer.echo(f"  {each.name} ({each.identity[:8]}): {each.rows:,} rows")
