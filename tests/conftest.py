import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def package_copy(tmp_path: Path) -> Path:
    """A copy of the source tree to add files to and remove files from; put it on PYTHONPATH."""
    import shutil

    shutil.copytree(SRC / "pucl", tmp_path / "src" / "pucl", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src"


def environment(pythonpath: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(pythonpath), "PYTHONDONTWRITEBYTECODE": "1"}
