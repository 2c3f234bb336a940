"""Packages that some encoders need, and weights that may not be on this machine: one line each."""

from importlib import import_module
from typing import Any

from pucl.errors import InputError


def need(module: str, what: str, install: str | None = None) -> Any:
    """An optional package, or one line that says how to get it: `install`, or the package by its own name."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
        why = "" if absent else f" (it is here but cannot be imported: {' '.join(str(error).split())[:120]})"
        raise InputError(f"encoder {what} needs {package}{why}: {install or f'pip install {package}'}") from None


def not_here(owner: str, encoder: str, reason: str = "") -> InputError:
    """The error for weights that would have to be downloaded first, ready to raise."""
    because = f" ({' '.join(reason.split())[:160]})" if reason else ""
    allow = "--download" if owner.startswith("pucl ") else "download=True"
    problem = f"the weights of encoder {encoder!r} are not on this machine{because}; allow the download with {allow}"
    return InputError(problem, owner=owner)
