"""The verbs of ``pucl bench``: run a grid, merge results, print a table, draw a figure, write a page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pucl.cli.options import Address, EngineName, names_of, words
from pucl.cli.planned import known_hardware, say_would_run
from pucl.cli.signing import Verb

app = typer.Typer()
RESULTS = Path("results/benchmark.jsonl")
TABLES = Path("results/tables.jsonl")
MAPS = Path("results/maps.jsonl")
GOALS = Path("paper/reach.toml")
FIGURES = Path("paper/figures.toml")
NAMES = ("pu-benchmark-1", "downstream-head", "weak-supervision-knn", "pu-benchmark-2", "pu-pretrained", "tables")
Results = Annotated[Path, typer.Option(help="File of results, one JSON line per cell.")]
EitherResults = Annotated[
    Path | None,
    typer.Option(help=f"File of results, one JSON line per cell (default: {RESULTS}; of real tables {TABLES})."),
]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """The benchmark: run grids of the paper's experiments and compare with the published numbers.

    Example: pucl bench run paper/smoke.toml
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(cls=Verb)
def run(
    grid: Annotated[Path, typer.Argument(help="A TOML file, such as paper/smoke.toml or paper/tables.toml.")],
    only: Annotated[
        list[str] | None,
        typer.Option(help="Cells with this in their name, or key=value (task, table, seed …); may be repeated."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many cells to run at the same time, on one device.")] = 1,
    minutes: Annotated[
        float | None,
        typer.Option(help="End after so many minutes, and begin nothing that takes longer by stored times."),
    ] = None,
    stale: Annotated[bool, typer.Option("--stale", help="Also run cells again whose code has changed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run all cells again, encoders included.")] = False,
    results: EitherResults = None,
    encoders: Annotated[
        Path | None, typer.Option(help="Folder for trained encoders (default: encoders, next to the results).")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 … (default: a GPU if there is one).")] = None,
    commit: Annotated[str | None, typer.Option(help="Commit to store with the results if there is no git.")] = None,
    engine: EngineName = None,
    address: Address = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be run, and the time it will take.")
    ] = False,
    hardware: Annotated[
        str | None,
        typer.Option(help="With --dry-run: the time on this hardware, as results name it, such as 'NVIDIA H200'."),
    ] = None,
) -> None:
    """Run the cells of a grid that have no result yet. It can be stopped at any time; the same command continues.

    Example: pucl bench run paper/benchmark1.toml --only task=fmnist1 --only seed=0,1 --jobs 4
    """
    from pucl.bench.grid.grid import read_grid
    from pucl.bench.results.store import read_results
    from pucl.bench.run.runner import plan, say_cost, say_outdated, select, sweep
    from pucl.bench.tables.grid import is_table_grid
    from pucl.device import pick_device
    from pucl.engines import Engine
    from pucl.errors import Described, bad_argument, check_count, check_positive

    check_count("pucl bench run", "--jobs", jobs)
    if minutes is not None:
        check_positive("pucl bench run", "--minutes", minutes)
    workers = Engine(engine, address)
    workers.check("pucl bench run")
    for option, wrong, allowed, got in (
        ("--hardware", hardware is not None and not dry_run, "given with --dry-run", hardware),
        ("--jobs", engine and jobs > 1, "left out with --engine, which uses the whole cluster", jobs),
        ("--minutes", minutes is not None and engine, "left out with --engine", minutes),
        ("--minutes", minutes is not None and dry_run, "left out with --dry-run", minutes),
        ("--stale", stale and force, "given without --force, which runs all", Described("both")),
    ):
        if wrong:
            raise bad_argument("pucl bench run", option, allowed, got)
    if is_table_grid(grid):
        for option, value in (
            ("--stale", stale), ("--encoders", encoders), ("--device", device), ("--engine", engine),
            ("--minutes", minutes),
        ):  # fmt: skip
            if value:
                raise bad_argument("pucl bench run", option, "left out for a grid of tables", value)
        where = results or TABLES
        if dry_run:
            _plan_tables(grid, only or [], where, force=force, hardware=hardware)
        else:
            _run_tables(grid, only or [], where, jobs=jobs, force=force, commit=commit)
        return
    cells, results = select(read_grid(grid), only or []), results or RESULTS
    if dry_run:
        pick_device(device)
        lines = read_results(results, missing_ok=True)
        to_do = plan(cells, lines, force=force, stale=stale)
        say_outdated(to_do, typer.echo)
        known = known_hardware(hardware, (line.origin.hardware for line in lines))
        say_cost(to_do, lines, typer.echo, device=device, jobs=jobs, hardware=known)
        say_would_run(to_do)
        return
    with _stoppable(force=force):
        summary = sweep(
            cells, results, encoders=encoders, jobs=jobs, force=force, stale=stale, device=device, commit=commit,
            engine=workers, minutes=minutes, on_progress=typer.echo,
        )  # fmt: skip
    if summary.failed:
        raise typer.Exit(1)


def _run_tables(grid: Path, only: list[str], results: Path, *, jobs: int, force: bool, commit: str | None) -> None:
    """Run a grid of real tables."""
    from pucl.bench.tables.grid import read_table_grid, select
    from pucl.bench.tables.suite import sweep_tables

    cells = select(read_table_grid(grid), only)
    with _stoppable(force=force):
        summary = sweep_tables(cells, results, jobs=jobs, force=force, commit=commit, on_progress=typer.echo)
    if summary.failed:
        raise typer.Exit(1)


def _plan_tables(grid: Path, only: list[str], results: Path, *, force: bool, hardware: str | None) -> None:
    """Print what running a grid of real tables would do."""
    from pucl.bench.tables.grid import read_table_grid, select
    from pucl.bench.tables.line import FitLine
    from pucl.bench.tables.suite import plan, read_table_lines, say_cost

    lines = read_table_lines(results, missing_ok=True)
    to_do = plan(select(read_table_grid(grid), only), lines, force=force)
    known = (line.origin.hardware for line in lines if isinstance(line, FitLine))
    say_cost(to_do, lines, typer.echo, hardware=known_hardware(hardware, known))
    say_would_run(to_do)


@contextmanager
def _stoppable(*, force: bool) -> Iterator[None]:
    """Say how to go on when the user stops a sweep."""
    try:
        yield
    except KeyboardInterrupt:
        anew = "the same command starts again from the first cell; without --force it continues with the missing cells"
        typer.echo(f"pucl: stopped; {anew if force else 'the same command continues'}", err=True)
        raise typer.Exit(130) from None


@app.command(cls=Verb)
def add(
    files: Annotated[list[Path], typer.Argument(help="Files of results, for example from other machines.")],
    results: Results = RESULTS,
) -> None:
    """Merge files of results into one without duplicates; the newest result of each cell is kept.

    Example: pucl bench add from-the-other-machine.jsonl
    """
    from pucl.bench.results.json_lines import only_writer
    from pucl.bench.results.store import merge, read_results, write_results

    more = [read_results(path, argument="FILES") for path in files]
    with only_writer(results):
        own = read_results(results, missing_ok=True)
        merged = merge([own, *more])
        write_results(results, merged.lines)
    names = {line.key: line.cell.name for line in merged.lines}
    for key in merged.conflicts:
        typer.echo(f"conflict: {names[key]} ({key}): the same revisions gave other numbers; the newest are kept")
    new = len(merged.lines) - len({line.key for line in own})
    typer.echo(f"{results}: {len(merged.lines)} cells, {new} new, {merged.dropped} older or equal lines dropped")


@app.command(cls=Verb)
def table(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(NAMES)}.", autocompletion=words(*NAMES))],
    results: EitherResults = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="text, markdown, csv or latex (not for 'tables').",
            autocompletion=words("text", "markdown", "csv", "latex"),
        ),
    ] = "text",
) -> None:
    """Print a table of the paper with our results in it: mean ± std, seeds, the paper's number, difference, test.

    'pu-pretrained' has encoders that come with published weights, which no other table shows.
    'tables' is the comparison on real tables: AUC and F1 with ranks, estimates of π, promises against the truth.

    Example: pucl bench table pu-benchmark-1 --format markdown
    """
    from pucl.bench.pages.layouts import write
    from pucl.bench.pages.tables import make_table
    from pucl.bench.results.store import read_results
    from pucl.bench.tables import layout
    from pucl.bench.tables.suite import read_table_lines
    from pucl.errors import check_known

    check_known("pucl bench table", "table", [name], NAMES)
    if name == "tables":
        found = read_table_lines(results or TABLES, missing_ok=results is None)
        typer.echo(layout.write(found, form), nl=False)
        return
    lines = read_results(results or RESULTS, missing_ok=results is None)
    typer.echo(write(make_table(name, lines), form), nl=False)


@app.command(cls=Verb)
def figure(
    name: Annotated[
        str | None, typer.Argument(help="A figure, see --list.", autocompletion=names_of("figures"))
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for NAME.svg, NAME.png and NAME.csv.")] = Path("figures"),
    show_list: Annotated[bool, typer.Option("--list", help="Only say what there is and what fills it.")] = False,
    grid: Annotated[Path, typer.Option(help="The grid whose results are drawn.")] = FIGURES,
    results: Results = RESULTS,
    maps: Annotated[Path, typer.Option(help="File of maps, see 'pucl bench maps'.")] = MAPS,
) -> None:
    """Draw a figure of the paper, as SVG, PNG and CSV of its data; results that it needs have to be stored.

    Example: pucl bench figure kappa --out figures

    Example: pucl bench figure --list
    """
    from pucl.bench.figures.drawing import files_of, save
    from pucl.bench.figures.making import Results as Stored
    from pucl.bench.figures.making import catalogue, make
    from pucl.bench.results.maps import read_maps
    from pucl.bench.results.store import read_results
    from pucl.errors import Described, bad_argument
    from pucl.models.places import check_file

    lines = read_results(results, missing_ok=results == RESULTS)
    stored = Stored(lines, read_maps(maps, missing_ok=maps == MAPS))
    if show_list:
        for row in catalogue(grid, stored):
            typer.echo(row)
        return
    if name is None:
        raise bad_argument("pucl bench figure", "NAME", "given, or --list", Described("neither"))
    for path in files_of(name, out).values():
        check_file("pucl bench figure", "--out", path)
    made = make(name, grid, stored)
    for path in save(made.picture, name, out):
        typer.echo(f"Figure: {path}")
    if made.missing:
        typer.echo(f"Without a result: {made.missing}; run: {made.command}")


@app.command(cls=Verb)
def maps(
    grid: Annotated[Path, typer.Argument(help="A TOML file, such as paper/figures.toml.")],
    only: Annotated[
        list[str] | None,
        typer.Option(help="Cells with this in their name, or key=value (task, objective, seed …); may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File of maps, one JSON line per encoder.")] = MAPS,
    encoders: Annotated[
        Path | None, typer.Option(help="Folder for trained encoders (default: encoders, next to the maps).")
    ] = None,
    points: Annotated[int, typer.Option(help="How many test rows a map shows.")] = 1500,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 … (default: a GPU if there is one).")] = None,
    commit: Annotated[str | None, typer.Option(help="Commit to store with the maps if there is no git.")] = None,
) -> None:
    """Map the embeddings of encoders to two dimensions by t-SNE, for the figures that show them.

    An encoder that is not stored is trained; one that has a map in the file is left out.

    Example: pucl bench maps paper/figures.toml --only task=cifar0 --only setting=single-set --only seed=0
    """
    from pucl.bench.grid.grid import read_grid
    from pucl.bench.results.maps import add_maps, read_maps
    from pucl.bench.results.revisions import revisions_of
    from pucl.bench.run.encoding import EncoderStore
    from pucl.bench.run.mapping import encoders_of, map_encoders
    from pucl.bench.run.runner import select
    from pucl.device import pick_device
    from pucl.errors import check_count
    from pucl.models.places import check_file

    check_count("pucl bench maps", "--points", points, low=10)
    check_file("pucl bench maps", "--out", out)
    wanted, there = encoders_of(select(read_grid(grid), only or [])), read_maps(out, missing_ok=True, argument="--out")
    missing = [cell for cell in wanted if cell.key not in there or there[cell.key].outdated(revisions_of(cell))]
    store = EncoderStore(encoders or out.parent / "encoders", str(pick_device(device)))
    add_maps(out, map_encoders(missing, store, points, commit))
    typer.echo(f"Maps: {out} ({len(missing)} new, {len(wanted) - len(missing)} already there)")


@app.command(cls=Verb)
def leaderboard(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/leaderboard.md"),
    goals: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of goals: pipelines and the accuracy to reach (default: paper/reach.toml, if it exists)."
        ),
    ] = None,
    results: Results = RESULTS,
) -> None:
    """Write the leaderboard of the documentation from stored results.

    Example: pucl bench leaderboard --out docs/leaderboard.md
    """
    from pucl.bench.pages.leaderboard import write_leaderboard
    from pucl.bench.results.store import read_results
    from pucl.models.places import check_file

    check_file("pucl bench leaderboard", "--out", out)
    if goals is None and GOALS.exists():
        goals = GOALS
    write_leaderboard(out, read_results(results, missing_ok=results == RESULTS), goals)
    typer.echo(f"Leaderboard: {out}")


@app.command(cls=Verb)
def baselines(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/baselines.md"),
    notes: Annotated[
        Path, typer.Option(help="TOML file: why a number differs from the published one, by task and method.")
    ] = (Path("paper/notes.toml")),
    results: Results = RESULTS,
) -> None:
    """Write the page of the baselines: fidelity, needs, costs, our numbers next to the published ones.

    Example: pucl bench baselines --out docs/baselines.md
    """
    from pucl.bench.pages.baselines_page import write_page
    from pucl.bench.results.store import read_results
    from pucl.models.places import check_file

    check_file("pucl bench baselines", "--out", out)
    write_page(out, read_results(results, missing_ok=results == RESULTS), notes)
    typer.echo(f"Baselines: {out}")


@app.command(cls=Verb)
def tables(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/tables.md"),
    results: Results = TABLES,
) -> None:
    """Write the page of the comparison on real tables from stored results.

    Example: pucl bench tables --out docs/tables.md
    """
    from pucl.bench.tables.page import write_page
    from pucl.bench.tables.suite import read_table_lines
    from pucl.models.places import check_file

    check_file("pucl bench tables", "--out", out)
    write_page(out, read_table_lines(results, missing_ok=results == TABLES))
    typer.echo(f"Tables: {out}")


@app.command(cls=Verb)
def reproduction(
    page: Annotated[Path, typer.Option(help="The page whose table is written anew.")] = Path("docs/reproduction.md"),
    results: Results = RESULTS,
) -> None:
    """Update the page on reproducing the paper: the published numbers that ours misses.

    Example: pucl bench reproduction
    """
    from pucl.bench.pages.reproduction import write_page
    from pucl.bench.results.store import read_results

    write_page(page, read_results(results, missing_ok=results == RESULTS))
    typer.echo(f"Reproduction: {page}")
