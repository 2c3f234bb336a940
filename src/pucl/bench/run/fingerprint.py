"""Which code made a result: a hash of the source files that what was computed depends on.

A result is not compared with the commit it was made at, which changes with every document, but with the files that can
change it: those of the entries a cell names, the work on cells, and whatever these import, wherever the import stands.
Files of other entries do not count, so that a new loss leaves every result and every trained encoder as it was; nor do
comments, docstrings and blank lines.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pucl
from pucl.bench.grid.cells import FINE_TUNE, ORACLE, PLAIN, TEACHER, is_baseline, registered
from pucl.pseudo_labels.labellers import FAMILIES as LABELLERS
from pucl.registry import entries

PACKAGE = "pucl"
CELLS, ENCODERS = "bench/run/work.py", "bench/run/encoding.py"  # where the work on them begins
# What names the parts of the package, says where a line comes from, or is shown while one waits: it computes nothing.
SILENT = ("__init__.py", "bench/run/fingerprint.py", "bench/run/provenance.py")
NOT_OF_PIPELINES = ("baselines/",)
NOT_OF_ENCODERS = (
    "baselines/",
    "bench/run/probes.py",
    "heads/",
    "metrics.py",
    "pseudo_labels/",
)  # what grades or labels
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
TUNING, ESTIMATING = ("heads/finetune.py", "heads/tuned.py"), "ranking/prior.py"  # of the cells that ask for them


class Sources:
    """The source files of the package as they are when this is made, by their place in it."""

    def __init__(self, root: Path | None = None) -> None:
        root = root or Path(pucl.__file__).parent
        found = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.py")}
        self._texts = {name: text.replace(b"\r\n", b"\n") for name, text in sorted(found.items())}
        self._imports: dict[str, set[str]] = {}

    def code_of(self, config: Mapping[str, Any]) -> str:
        """The fingerprint of a cell: 12 hexadecimal digits of the SHA-256 of names and contents of its files."""
        return self._hash(self.files_of(config))

    def encoder_code_of(self, about: Mapping[str, Any]) -> str:
        """The fingerprint of a trained encoder; `about` is `cells.encoder_of`."""
        return self._hash(self.encoder_files_of(about))

    def files_of(self, config: Mapping[str, Any]) -> list[str]:
        """The files a cell depends on."""
        without = [*SILENT, *(() if is_baseline(config) else NOT_OF_PIPELINES)]
        without += [] if FINE_TUNE in _heads(config) else [*TUNING]
        return self._reached(CELLS, _entries_of(config), without, config)

    def encoder_files_of(self, about: Mapping[str, Any]) -> list[str]:
        """The files a trained encoder depends on."""
        return self._reached(ENCODERS, _entries_of_encoder(about), [*SILENT, *NOT_OF_ENCODERS], about)

    def _reached(
        self, start: str, named: Iterable[tuple[str, str | None]], without: list[str], config: Mapping[str, Any]
    ) -> list[str]:
        """The files of entries and a first one, with all they import, but for those that begin with some words."""
        left = [start, *(file for family, name in named for file in self._of_entry(family, name))]
        shut = tuple(without if _estimates(config) else [*without, ESTIMATING])
        found: set[str] = set()
        while left:
            name = left.pop()
            if name not in found and not name.startswith(shut):
                found.add(name)
                left += self._imported(name)
        return sorted(found)

    def _of_entry(self, family: str, name: str | None) -> list[str]:
        """The file of an entry, none of one that is not registered here; with no name those of the whole family."""
        known = entries(family)
        chosen = known.values() if name is None else [known[name]] if name in known else []
        return [file for entry in chosen for file in self._file_of(entry.function.__module__)]

    def _imported(self, name: str) -> set[str]:
        if name not in self._imports:
            modules: set[str] = set()
            for node in ast.walk(ast.parse(self._texts[name])):
                if isinstance(node, ast.Import):
                    modules |= {alias.name for alias in node.names}
                if isinstance(node, ast.ImportFrom) and node.module:
                    modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            self._imports[name] = {file for module in modules for file in self._file_of(module)}
        return self._imports[name]

    def _file_of(self, module: str) -> list[str]:
        package, *parts = module.split(".")
        place = "/".join(parts)
        return [file for file in (f"{place}.py", f"{place}/__init__.py") if package == PACKAGE and file in self._texts]

    def _hash(self, names: Iterable[str]) -> str:
        digest = hashlib.sha256()
        for name in names:
            digest.update(name.encode() + b"\0" + _digest(self._texts[name]))
        return digest.hexdigest()[:12]


@cache
def _digest(text: bytes) -> bytes:
    return hashlib.sha256(bare(text.decode()).encode()).digest()


def bare(source: str) -> str:
    """Source code without comments, docstrings and blank lines, the same under every version of Python."""
    lines = source.split("\n")  # as tokens and nodes count them
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row - 1] = lines[row - 1][:column]
        elif token.string.strip():
            held |= {*range(row, token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            text, *others = node.body
            alone = not lines[text.lineno - 1][: text.col_offset].strip()
            if alone and all(other.lineno > (text.end_lineno or 0) for other in others):
                held -= {*range(text.lineno, (text.end_lineno or 0) + 1)}
    return "\n".join(lines[row - 1].rstrip() for row in sorted(held))


def _entries_of(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Family and name of the entries a cell uses; no name where any of the family may be."""
    if is_baseline(config):
        yield from (("datasets", config["task"]), ("baselines", registered(config["method"])), ("views", None))
        yield "encoders", config["encoder"]
        if _estimates(config):
            yield "priors", None
        return
    yield from _entries_of_encoder(config)
    yield from ((family, config["labeller"] or "") for family in LABELLERS)
    yield "heads", config["head"]
    if config["head"] == FINE_TUNE:
        yield "views", config["head_options"].get("view")
    if TEACHER in config:
        yield from _entries_of({"task": config["task"], **config[TEACHER]})


def _entries_of_encoder(about: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield from (("datasets", about["task"]), ("losses", about["objective"]), ("encoders", about["encoder"]))
    yield "views", about["recipe"]["view"]
    if _estimates(about):
        yield from (("priors", None), ("losses", PLAIN))


def _heads(config: Mapping[str, Any]) -> set[str]:
    return {config.get("head", "")} | (_heads(config[TEACHER]) if TEACHER in config else set())


def _estimates(config: Mapping[str, Any]) -> bool:
    """Whether a cell, an encoder or a teacher is told an estimate of π."""
    told = {config.get(key) for key in ("prior", "encoder_prior", "top_prior")} - {None, ORACLE}
    return bool(told) or (TEACHER in config and _estimates(config[TEACHER]))
