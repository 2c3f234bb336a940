"""Packages that some encoders need, and weights that may not be on this machine: one line each."""

from importlib import import_module
from pathlib import Path
from typing import Any

from pucl.errors import InputError

FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # of published networks: neither code nor pickles


def need(module: str, what: str, install: str | None = None) -> Any:
    """An optional package, or one line that says how to get it: by `install`, or by the name of the module.

    `what` needs it, such as ``encoder 'timm:x'``.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
        why = "" if absent else f" (it is here but cannot be imported: {' '.join(str(error).split())[:120]})"
        raise InputError(f"{what} needs {package}{why}: {install or f'pip install {package}'}") from None


def not_here(owner: str, what: str, reason: str = "") -> InputError:
    """The error for weights that would have to be downloaded first, ready to raise."""
    because = f" ({' '.join(reason.split())[:160]})" if reason else ""
    allow = "--download" if owner.startswith("pucl ") else "download=True"
    problem = f"the weights of {what} are not on this machine{because}; allow the download with {allow}"
    return InputError(problem, owner=owner)


def folder_of(target: str, what: str, *, owner: str, download: bool) -> Path:
    """The folder with a published network: one that the user named, or in the cache of huggingface_hub.

    Args:
        target: a folder, or ORG/NAME on the hub.
        what: is loaded, for errors.
        owner: what the user called.
        download: whether files that are not on this machine may be fetched.
    """
    if Path(target).is_dir():
        return Path(target)
    hub = need("huggingface_hub", what)
    try:
        return Path(hub.snapshot_download(target, allow_patterns=list(FILES), local_files_only=not download))
    except Exception as error:
        raise not_here(owner, what, str(error)) from None
