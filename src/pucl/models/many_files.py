"""Many files of rows through a model: one file of scores or embeddings for each, by one process or by many."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pucl.data.own.files import is_pattern
from pucl.data.own.rules import ColumnWarning
from pucl.engines import HERE, Engine
from pucl.engines.ray_pool import run_on_ray
from pucl.errors import Described, InputError, RunError, bad_argument, signed_by, users_line
from pucl.models.folder import read_card
from pucl.models.folders import READ, Folder, find_tables
from pucl.models.labelling import LabelRule
from pucl.models.places import check_folder
from pucl.models.scoring import SUFFIXES, embed_to_file, joined, score_to_file
from pucl.models.source import ModelSource

SCORES, EMBEDDINGS = "pucl.score_files", "pucl.embed_files"
MANIFEST = "manifest.json"
SHARDS = "'i/n' with 0 ≤ i < n, such as 0/2 and 1/2"
CONTENT = ("threshold", "recall", "precision", "id_column", "key")  # options that what is written depends on


@dataclass(frozen=True)
class FilesDone:
    """What became of many files.

    Attributes:
        files: how many were written now.
        there: how many were there already.
        rows: in the files written now.
        positive: of these, how many are labelled positive.
        failed: files that could not be read or written, with the reason.
        out: the folder of all.
        rule: for the labels, in words; empty for embeddings.
    """

    files: int
    there: int
    rows: int
    positive: int
    failed: tuple[tuple[str, str], ...]
    out: str
    rule: str = ""


@dataclass(frozen=True)
class _OneFile:
    """What came of one file: its rows, those labelled positive, and what is odd about its columns."""

    rows: int
    positive: int
    odd: tuple[ColumnWarning, ...]


@dataclass(frozen=True)
class _Work:
    """What is done with every file; can be sent to another machine."""

    model: ModelSource
    source: Folder
    out: Folder
    owner: str
    options: Mapping[str, Any]
    device: str | None = None

    def __call__(self, name: str) -> _OneFile:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with self.source.reading(name) as rows, self.out.writing(self.result_of(name)) as result:
                model = self.model.load(self.device)
                if self.owner == EMBEDDINGS:
                    n, positive = embed_to_file(model, rows, result, **self.options), 0
                else:
                    scored = score_to_file(model, rows, result, **self.options)
                    n, positive = scored.rows, scored.positive
        self._date(name)
        odd = tuple(each.message for each in caught if isinstance(each.message, ColumnWarning))
        return _OneFile(n, positive, odd)

    def _date(self, name: str) -> None:
        """Make a result no older than its rows, whose time may come from a clock that is ahead of this one."""
        if self.source.filesystem is not None or self.out.filesystem is not None:
            return
        result = Path(self.out.path, self.result_of(name))
        with suppress(OSError):
            changed = Path(self.source.path, name).stat().st_mtime_ns
            if result.stat().st_mtime_ns < changed:
                os.utime(result, ns=(changed, changed))

    def result_of(self, name: str) -> str:
        """The file for the rows of a file: of the same name where that can hold them, with .parquet after it if not."""
        kinds = SUFFIXES if self.owner == SCORES else SUFFIXES[:1]
        return name if PurePosixPath(name).suffix.lower() in kinds else f"{name}.parquet"


def are_many(model: str | Path, source: str) -> bool:
    """Whether a source is many files for a model: a pattern, an address, or a folder with tables for one of tables."""
    if "://" in source or is_pattern(source):
        return True
    schema, folder = read_card(model).schema, Path(source)
    if not folder.is_dir() or schema.kind == "image" or schema.only_text is not None:
        return False
    return any(path.suffix.lower() in READ for path in folder.rglob("*"))


@signed_by(SCORES)
def score_files(
    model: str | Path,
    source: str,
    out: str,
    *,
    threshold: float | None = None,
    recall: float | None = None,
    precision: float | None = None,
    engine: Engine = HERE,
    shard: tuple[int, int] = (0, 1),
    filesystem: Any = None,
    device: str | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> FilesDone:
    """Write the scores of many files into a folder: one file for each, whole or not at all.

    Run again, it writes what is missing, or older than its rows. A folder with other scores is refused.

    Args:
        model: the folder of a fitted one.
        source: a pattern like ``data/*.parquet`` or a folder, here or at an address that pyarrow.fs knows
            (``s3://bucket/data``); only tables and arrays in it count.
        out: the folder for the scores; names are those below the folder before the first wildcard.
        threshold: as in `scores`, and so are the next two.
        recall: see `scores`.
        precision: see `scores`.
        engine: this process, or a cluster.
        shard: (i, n): only every n-th file, from the i-th on, where other processes do the others.
        filesystem: of pyarrow, that `source` and `out` are on; by their addresses when not given.
        device: where encoders compute; a GPU if there is one.
        on_progress: called with what is done, in words and as a share.
        **options: the other arguments of `score_to_file`, but for `top`.
    """
    if (top := options.pop("top", None)) is not None:
        allowed = "left out for many files, as it ranks all rows (use recall= or threshold=)"
        raise bad_argument(SCORES, "top", allowed, top)
    card: Any = read_card(model)
    rule = LabelRule(threshold, None, recall, precision).checked(card)
    labels = {"threshold": threshold, "recall": recall, "precision": precision}
    work, times = _planned(SCORES, model, source, out, filesystem, options | labels, device)
    return replace(_run(work, times, engine, shard, on_progress), rule=rule.in_words(card))


@signed_by(EMBEDDINGS)
def embed_files(
    model: str | Path,
    source: str,
    out: str,
    *,
    engine: Engine = HERE,
    shard: tuple[int, int] = (0, 1),
    filesystem: Any = None,
    device: str | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> FilesDone:
    """Write the embeddings of many files into a folder, as `score_files` does with scores.

    Args:
        model: the folder of a fitted one.
        source: see `score_files`.
        out: see `score_files`; all files are Parquet.
        engine: see `score_files`.
        shard: see `score_files`.
        filesystem: see `score_files`.
        device: see `score_files`.
        on_progress: see `score_files`.
        **options: the other arguments of `embed_to_file`.
    """
    work, times = _planned(EMBEDDINGS, model, source, out, filesystem, options, device)
    return _run(work, times, engine, shard, on_progress)


def _planned(
    owner: str,
    model: str | Path,
    source: str,
    out: str,
    filesystem: Any,
    options: Mapping[str, Any],
    device: str | None,
) -> tuple[_Work, dict[str, int]]:
    """The work on one file, and the names of all with the times of their last change."""
    folder, times = find_tables(source, owner, filesystem)
    results = Folder.of(out, owner, "out", filesystem)
    if results == folder:
        raise bad_argument(owner, "out", "another folder than that of the rows", out)
    if results.path.suffix.lower() in SUFFIXES or results.is_file:
        raise bad_argument(owner, "out", "a folder, which gets a file for each file of rows", out)
    if results.filesystem is None:
        check_folder(owner, "out", Path(results.path))
    if results.filesystem == folder.filesystem and results.path.is_relative_to(folder.path):
        own = results.path.relative_to(folder.path)
        times = {name: time for name, time in times.items() if own not in PurePosixPath(name).parents}
    return _Work(ModelSource.of_folder(model), folder, results, owner, dict(options), device), times


def _run(
    work: _Work,
    times: Mapping[str, int],
    engine: Engine,
    shard: tuple[int, int],
    on_progress: Callable[[str, float], None] | None,
) -> FilesDone:
    """Do the work for every file of this shard whose result is not there."""
    i, n = shard
    if not 0 <= i < n:
        raise bad_argument(work.owner, "shard", SHARDS, Described(f"{i}/{n}"))
    engine.check(work.owner)
    mine, written = list(times)[i::n], _claim(work)
    missing = [name for name in mine if written.get(work.result_of(name), -1) < times[name]]
    done: list[_OneFile] = []
    failed: list[tuple[str, str]] = []
    try:
        for name, result in _results(work, missing, engine):
            if isinstance(result, _OneFile):
                done.append(result)
            else:
                failed.append((name, _reason(result)))
            if on_progress is not None:
                files, rows = len(done) + len(failed), sum(one.rows for one in done)
                on_progress(f"{files:,} of {len(missing):,} files, {rows:,} rows", files / len(missing))
    finally:
        if missing and not done and work.out.files().keys() <= {MANIFEST}:  # of nothing
            work.out.remove()
    if done and work.out.read_json(MANIFEST) is None:  # another process, with nothing done, has removed it
        work.out.write_json(MANIFEST, _holds(work))
    for warning in joined(odd for one in done for odd in one.odd):
        warnings.warn(warning, stacklevel=users_line())
    rows, positive = sum(one.rows for one in done), sum(one.positive for one in done)
    return FilesDone(len(done), len(mine) - len(missing), rows, positive, tuple(failed), str(work.out.path))


def _claim(work: _Work) -> dict[str, int]:
    """Make the folder one for results of this model, or refuse it; returns what is there, with times."""
    holds, there = _holds(work), work.out.files()
    stored = work.out.read_json(MANIFEST) if MANIFEST in there else None
    others = [name for name in there if not name.startswith((".", MANIFEST))]
    if stored == holds:
        return there
    if stored is not None or others:
        same_model = isinstance(stored, dict) and stored.get("model") == holds["model"]
        other = "other options" if same_model else "another model"
        got = f"one with results of {other}" if stored is not None else f"one with {min(others)} in it"
        allowed = "new, empty or one with results of this model and these options, which a run completes"
        raise bad_argument(work.owner, f"out {work.out.path}", allowed, Described(got))
    work.out.write_json(MANIFEST, holds)
    return there


def _holds(work: _Work) -> dict[str, Any]:
    """What the folder of results says of itself."""
    return {
        "holds": work.owner.removeprefix("pucl."),
        "model": work.model.checksum,
        "options": {name: work.options[name] for name in CONTENT if work.options.get(name) is not None},
    }


def _results(work: _Work, names: Sequence[str], engine: Engine) -> Iterator[tuple[str, _OneFile | Exception]]:
    """What came of every file, as it comes."""
    if engine.name == "ray" and names:
        everywhere = replace(work, model=work.model.with_files())
        yield from run_on_ray(everywhere, names, owner=work.owner, address=engine.address)
        return
    for name in names:
        try:
            result: _OneFile | Exception = work(name)
        except Exception as error:  # one file must not keep the others from being done
            result = error
        yield name, result


def _reason(error: Exception) -> str:
    """Why a file was not done, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError | RunError) else f"{type(error).__name__}: {text[:300]}"
