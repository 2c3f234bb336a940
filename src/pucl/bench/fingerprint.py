"""Which code made a result: a hash of the source files that what was computed depends on.

A result is not compared with the commit it was made at, which changes with every document, but with the files that
can change it. Pipelines do not depend on the baselines, nor an encoder on what stands on it.
"""

import hashlib
from pathlib import Path

import pucl

# What shows results, or is made of the same parts for other purposes, and computes none of a cell.
ELSEWHERE = ("__main__.py", "console.py", "estimators", "report", "theory")
NOT_OF_PIPELINES = ("baselines", "fitting", "models", "selection")
NOT_OF_ENCODERS = (*NOT_OF_PIPELINES, "heads", "logistic.py", "metrics.py", "ordering.py", "priors", "pseudo_labels")
OF_CELLS = ("cells.py", "encoding.py", "options.py", "probes.py", "problem.py", "recipes.py", "stages.py", "work.py")
OF_ENCODERS = ("encoding.py", "recipes.py")  # of the files of bench


def pipeline_code() -> str:
    """The fingerprint of what a pipeline depends on."""
    return fingerprint(without=NOT_OF_PIPELINES, bench=OF_CELLS)


def baseline_code() -> str:
    """The fingerprint of what a baseline depends on."""
    return fingerprint(without=(), bench=OF_CELLS)


def encoder_code() -> str:
    """The fingerprint of what a trained encoder depends on."""
    return fingerprint(without=NOT_OF_ENCODERS, bench=OF_ENCODERS)


def fingerprint(*, without: tuple[str, ...], bench: tuple[str, ...]) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of names and contents of the files; see `files`."""
    digest = hashlib.sha256()
    root = _root()
    for path in files(without=without, bench=bench):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:12]


def files(*, without: tuple[str, ...], bench: tuple[str, ...]) -> list[Path]:
    """Source files of the package in order, without some parts and with the named files of bench only."""
    root, found = _root(), []
    for path in sorted(root.rglob("*.py")):
        part, *rest = path.relative_to(root).parts
        if part in (*ELSEWHERE, *without) or part.startswith("cli") or (part == "bench" and rest[0] not in bench):
            continue
        found.append(path)
    return found


def _root() -> Path:
    return Path(pucl.__file__).parent
