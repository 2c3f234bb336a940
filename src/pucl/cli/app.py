"""The ``pucl`` command. Each verb calls one function; torch is loaded only by the verbs that need it."""

import errno
import json
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from pucl import __version__
from pucl.cli.bench import app as bench_app
from pucl.cli.cache import cache
from pucl.cli.data import app as data_app
from pucl.cli.fit import fit, prior
from pucl.cli.model import diagnose, export, inspect, report
from pucl.cli.predict import embed, predict
from pucl.cli.review import review
from pucl.cli.signing import Verb, command_of
from pucl.cli.stopping import stopped_in_order
from pucl.cli.theory import theory
from pucl.cli.train import pretrain
from pucl.errors import InputError, RunError, check_count, how_to_install, unknown_name
from pucl.registry import FAMILIES

# What a disc says that is full or broken.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

app = typer.Typer(
    help="Classifiers from positive and unlabelled data.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")
for verb in (fit, predict, review, embed, report, inspect, diagnose, prior, export, pretrain, cache, theory):
    app.command(cls=Verb)(verb)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Learn a classifier from positive and unlabelled data."""
    if version:
        typer.echo(f"pucl {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _families(incomplete: str) -> list[str]:
    return [family for family in FAMILIES if family.startswith(incomplete)]


@app.command("list", cls=Verb)
def list_entries(
    family: Annotated[
        str | None, typer.Argument(help=f"One of: {', '.join(FAMILIES)}.", autocompletion=_families)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List what can be chosen by name: losses, encoders, views, data sets and so on.

    Example: pucl list losses
    """
    if family is not None and family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    from pucl.registry import entries

    shown = {name: entries(name) for name in ([family] if family else FAMILIES)}
    if as_json:
        fields = ("name", "summary", "reference", "needs_prior", "inputs")
        content = {
            name: [{field: getattr(entry, field) for field in fields} for entry in group.values()]
            for name, group in shown.items()
        }
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from pucl.cli.console import entries_table

    for name, group in shown.items():
        Console().print(entries_table(name, group))


@app.command(cls=Verb)
def demo(
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the numbers.")] = Path("pucl-demo"),
) -> None:
    """Tell odd from even handwritten digits with 100 labelled positives, in under a minute.

    Example: pucl demo --seed 1
    """
    check_count("pucl demo", "--seed", seed, low=0)
    from rich.console import Console

    from pucl.bench.demo import run_demo
    from pucl.cli.console import images_as_text, progress_bar, scores_table

    with progress_bar() as report:
        outcome = run_demo(seed=seed, out=out, on_step=report)
    console = Console()
    n_labelled, n_unlabelled = int(outcome.sample.s.sum()), int((~outcome.sample.s).sum())
    console.print(
        f"Odd digits are the positives: {n_labelled} of them are labelled, {n_unlabelled:,} digits are not. "
        f"Nothing else is known.\nEstimated share of odd digits among the unlabelled: {100 * outcome.prior:.1f} % "
        f"(true: {100 * outcome.sample.prior:.1f} %).\n"
    )
    console.print(scores_table(f"Held-out digits, seed {seed}, in %", outcome.scores))
    console.print("\nThe ten unlabelled digits it is most sure are odd:\n")
    console.print(images_as_text(outcome.images), markup=False, highlight=False)
    console.print(f"\nNumbers: {outcome.report}")
    picture = outcome.picture or f"not drawn, matplotlib is missing: {how_to_install('plots')}"
    console.print(f"Picture of the embedding: {picture}", markup=False)


def main() -> None:
    """Run the command; what the user got wrong is one line on stderr and exit code 2, a run that cannot go on 1."""
    warnings.showwarning = _warn
    with stopped_in_order():
        sys.exit(_code())


def _code() -> int:
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error))
    except RunError as error:
        _fail(str(error), code=1)
    except (typer.Abort, KeyboardInterrupt):  # the latter before typer has begun to listen
        _fail("stopped", code=130)
    except Exception as error:
        if _is_out_of_memory(error):
            _fail("out of memory: use fewer rows, fewer at a time (--batch-size), or a machine with more", code=1)
        if isinstance(error, OSError) and error.errno in FULL:
            where = f" {error.filename}" if error.filename else ""
            _fail(f"cannot write{where}: {error.strerror}; make room or give another place", code=1)
        # typer raises the usage errors of its own copy of click; what they share is how they are to be shown.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        command, typed = (command_of(context), context.command_path) if context is not None else ("pucl", "pucl")
        message = error.format_message()
        _fail(f"{command}: {message}{'' if message.endswith(('.', '?')) else '.'} Try '{typed} --help'.")
    return code if isinstance(code, int) else 0


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, in Python, in torch, in a call of the system, or while a library was loaded.

    A library may have wrapped the error, so what an error was raised from counts too.
    """
    while error is not None:
        if _says_out_of_memory(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _says_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if isinstance(error, ImportError):
        return any(sign in str(error) for sign in ("failed to map segment", "cannot allocate memory"))
    if "torch" not in sys.modules:
        return False
    from pucl.training.memory import is_out_of_memory

    return is_out_of_memory(error)


def _warn(message: Warning | str, *_where: object, **_more: object) -> None:
    """A warning as one line, without its place in the source."""
    typer.echo(f"pucl: warning: {' '.join(str(message).split())}", err=True)


def _fail(message: str, *, code: int = 2) -> None:
    typer.echo(message if message.startswith("pucl") else f"pucl: {message}", err=True)
    sys.exit(code)
