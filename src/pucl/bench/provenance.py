"""Where a measured line comes from: versions, hardware and commit."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from pucl import __version__


def provenance(device: str = "cpu", commit: str | None = None) -> dict[str, Any]:
    """What every line of results carries besides its configuration; `commit` is for places without git."""
    return {
        "versions": {"pucl": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
        "hardware": f"{torch.get_num_threads()} threads" if device == "cpu" else torch.cuda.get_device_name(),
        "commit": commit or _head(),
    }


def _head() -> str:
    command, here = ["git", "rev-parse", "--short", "HEAD"], Path(__file__).parent
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)  # noqa: S603
    except OSError:  # no git here
        return "unknown"
    return run.stdout.strip() or "unknown"
