"""``--resume`` and ``--overwrite`` of ``pucl fit``: where a fit saves itself, and what happens when it is stopped."""

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from pucl.cli.options import READING
from pucl.cli.stopping import stopped_in_order
from pucl.errors import Described, bad_argument
from pucl.fitting.resuming import Resumable, is_interrupted
from pucl.models.folder import UNFINISHED, check_out, is_model

OWNER = "pucl fit"
INTERRUPTED = 128 + signal.SIGINT


def place_of(options: Mapping[str, Any]) -> Path:
    """Where the fit saves itself."""
    return Path(options["out"]) / UNFINISHED


def check_place(options: Mapping[str, Any]) -> None:
    """Refuse to replace a model, or to forget an interrupted fit, that the user did not ask for."""
    out = options["out"]
    check_out(out)
    if options["overwrite"]:
        return
    if is_model(out):
        allowed = "a new folder, unless --overwrite is given to replace the model in it"
        raise bad_argument(OWNER, f"--out {out}", allowed, Described("a model"))
    if is_interrupted(place_of(options)) and not options["resume"]:
        allowed = "a new folder, unless --resume is given to go on with the fit in it, or --overwrite to start anew"
        raise bad_argument(OWNER, f"--out {out}", allowed, Described("an interrupted fit"))


def resumable(options: Mapping[str, Any]) -> Resumable:
    """How the fit saves itself; what is read, and how many rows, must be as before."""
    also = {name: options[name] for name in (*READING, "rows")}
    also |= {"start_from": options.get("start_from")}
    return Resumable(place_of(options), resume=bool(options["resume"]), also=also, discard="use --overwrite")


@contextmanager
def resumed_later(options: Mapping[str, Any]) -> Iterator[None]:
    """On Ctrl-C and SIGTERM, one line that says how to go on, if anything was saved."""
    try:
        with stopped_in_order():
            yield
    except (KeyboardInterrupt, SystemExit) as stopped:
        words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
        again = [*words, "--resume", *(["--overwrite"] if is_model(options["out"]) else [])]
        way = f"; to go on: {shlex.join(['pucl', *again])}" if is_interrupted(place_of(options)) else ""
        typer.echo(f"{OWNER}: stopped{way}", err=True)
        code = stopped.code if isinstance(stopped, SystemExit) else INTERRUPTED
        raise typer.Exit(code if isinstance(code, int) else 1) from None
