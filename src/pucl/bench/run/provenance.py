"""Where a measured line comes from: versions, hardware and commit."""

import contextlib
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

from pucl import __version__
from pucl.bench.results.line import Origin

LIBRARIES = ("numpy", "scipy", "scikit-learn")  # besides torch, what numbers are computed with
CHANGED = "+changes"


def provenance(device: str = "cpu", commit: str | None = None) -> Origin:
    """What every line of results carries besides its configuration; `commit` is for machines without git."""
    own = {"pucl": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
    versions = own | {name: version(name) for name in LIBRARIES}
    return Origin(versions, hardware_of(device), commit or _commit())


def hardware_of(device: str = "cpu", threads: int | None = None) -> str:
    """The name of the card, or the model of the processor, where it is known, and its threads (those in use)."""
    if torch.device(device).type == "cuda":
        return str(torch.cuda.get_device_name(device))
    threads = threads or torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' * (threads > 1)}"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "CPU"


def _commit() -> str:
    """The commit of the package, marked where its files are not as in it; results and documents do not matter."""
    head = _git("rev-parse", "--short", "HEAD")
    changed = CHANGED if head and _git("status", "--porcelain", "--", ".") else ""
    return f"{head}{changed}" or "unknown"


def _git(*words: str) -> str:
    command, package = ["git", *words], Path(__file__).parents[1]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=package)  # noqa: S603
    except OSError:  # no git here
        return ""
    return run.stdout.strip()
