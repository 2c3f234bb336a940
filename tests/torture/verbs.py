"""The verbs under torture: how each is run, run again, and what came of it, without what differs from run to run."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torture.inputs import packed
from torture.processes import Step

Items = Mapping[str, str]  # name of a result → a digest of its content
OF_THE_RUN = ("seconds", "created", "command")  # of the record of a fit
QUICK = ("--labeller", "pupl", "--head", "linear", "--device", "cpu", "--out", "m")
TABLE = ("fit", "people.csv", "--label", "known", "--id-column", "id", "--encoder", "raw", *QUICK)
PICTURES = (
    "fit",
    "pictures",
    "--encoder",
    "small_cnn",
    "--epochs",
    "6",
    "--batch-size",
    "24",
    "--prior",
    "0.4",
    *QUICK,
)
PRETRAIN = (
    *("pretrain", "people.csv", "--label", "known", "--epochs", "8", "--checkpoint-every", "2", "--device", "cpu"),
    *("--out", "r", "--resume"),
)
BENCH = ("bench", "run", "g.toml", "--device", "cpu", "--commit", "here", "--results", "r.jsonl")
PASSING = "passing"  # how the name of a result begins that an undisturbed run has for some time only
GOES_ON = ("--resume", "--overwrite")  # how a fit is run again


@dataclass(frozen=True)
class Verb:
    """One command and its result.

    Attributes:
        name: in the table.
        words: of the command; for none, `action` is run instead.
        result: the digests of what is visible in a folder.
        again: words for the run after the fault.
        old: words of a command that leaves another result in the same place; none if it cannot be replaced.
        action: what is run where there are no words.
        needs_model: `people.csv` has been fitted to the folder `model` before.
        quick: it is a part of the short form.
    """

    name: str
    words: tuple[str, ...]
    result: Callable[[Path], Items]
    again: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    action: Step | None = None
    needs_model: bool = False
    quick: bool = False

    def step(self) -> Step:
        """What is run in a process of its own."""
        if self.action is not None:
            return self.action
        from pucl.cli.app import main

        return main


def digest(content: Any) -> str:
    """A short digest of bytes, or of what JSON can hold."""
    data = content if isinstance(content, bytes) else json.dumps(content, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def files(*patterns: str) -> Callable[[Path], Items]:
    """The digests of files, those aside that a write has not finished."""

    def result(folder: Path) -> Items:
        from pucl.files import is_temporary

        found = (path for pattern in patterns for path in folder.glob(pattern))
        return {
            str(path.relative_to(folder)): digest(path.read_bytes())
            for path in found
            if path.is_file() and not is_temporary(path)
        }

    return result


def model(folder: Path) -> Items:
    """The model that loads from the folder m, whole; none if there is none."""
    from pucl.models.folder import files_of, is_model, load_model

    if not is_model(folder / "m"):
        return {}
    load_model(folder / "m")
    content: dict[str, Any] = {name: digest(data) for name, data in files_of(folder / "m").items()}
    about = json.loads(files_of(folder / "m")["model.json"])
    del about["sha256"]
    about["record"] = {name: value for name, value in about["record"].items() if name not in OF_THE_RUN}
    return {"m": digest({**content, "model.json": about})}


def encoder(folder: Path) -> Items:
    """What pretraining leaves: the encoder, if it loads, the transform of the table, the log and the checkpoints."""
    found: dict[str, str] = {}
    if (folder / "r" / "encoder.json").is_file():
        from pucl.encoders.saved import load_encoder

        load_encoder(folder / "r")
        found = dict(files("r/encoder.*", "r/table.json")(folder))
    elif (folder / "r" / "table.json").is_file():
        found = dict(files("r/table.json")(folder))
    if (folder / "r" / "log.jsonl").is_file():
        for line in (folder / "r" / "log.jsonl").read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                record = {k: v for k, v in json.loads(line).items() if k != "images_per_second"}
                found[f"epoch {record['epoch']}"] = digest(record)
    for path in (folder / "r" / "checkpoints").glob("step-*.json"):
        from pucl.training.checkpoints import read

        found[f"{PASSING} {path.stem}"] = digest(read(path).path.with_suffix(".safetensors").read_bytes())
    return found


def unpacked(folder: Path) -> Items:
    """The files of the data set that comes in an archive; until they are in their place, it may lie there, whole."""
    archive = folder / "data" / "packed.tar"
    if archive.is_file() and archive.read_bytes() != packed():
        raise ValueError(f"{archive.name} is not whole")
    return files("data/packed/*.bin")(folder)


def cells(folder: Path) -> Items:
    """The newest measures of every cell, and the weights of the encoders."""
    from pucl.bench.results.store import newest, read_results

    lines = newest(read_results(folder / "r.jsonl", missing_ok=True))
    return {
        **{key: digest(line.metrics) for key, line in lines.items()},
        **files("encoders/*/encoder.safetensors")(folder),
    }


def cached(folder: Path) -> Items:
    """The vectors that the cache of embeddings gives back."""
    import os

    from pucl import cache

    before = os.environ.get(cache.VARIABLE)
    os.environ[cache.VARIABLE] = str(folder / "cache")
    try:
        found = cache.look_up("encoder", _keys())
    finally:
        if before is None:
            del os.environ[cache.VARIABLE]
        else:
            os.environ[cache.VARIABLE] = before
    return {key.hex(): digest(vector.tobytes()) for key, vector in found.items()}


def fill_cache() -> None:
    """Keep vectors, batch by batch, those that are there already not again; then ask for all of them."""
    try:
        _fill_cache()
    except KeyboardInterrupt:  # which a command says in one line
        sys.exit(130)


def _fill_cache() -> None:
    from pucl import cache

    keys, vectors = _keys(), _vectors()
    for start in range(0, len(keys), 100):
        some = keys[start : start + 100]
        there = cache.look_up("encoder", some)
        missing = [i for i, key in enumerate(some) if key not in there]
        cache.keep("encoder", "torture", [some[i] for i in missing], vectors[start : start + 100][missing])
    cache.look_up("encoder", keys)


def score_in_shards() -> None:
    """One shard of many files, then the other."""
    from pucl.cli.app import main

    for shard in ("0/2", "1/2"):
        sys.argv = ["pucl", "predict", "model", "parts/*.csv", "--shard", shard, "--out", "scores"]
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise


def _vectors() -> Any:
    return np.random.default_rng(0).normal(size=(2000, 32)).astype("f4")


def _keys() -> list[bytes]:
    from pucl.cache import row_keys

    return row_keys(np.arange(2000)[:, None])


VERBS = (
    Verb("fit, table", (*TABLE, "--prior", "0.3"), model, GOES_ON, (*TABLE, "--prior", "0.4"), quick=True),
    Verb("fit, images", PICTURES, model, GOES_ON, ("fit", "pictures", "--encoder", "raw", "--prior", "0.4", *QUICK)),
    Verb("pretrain", PRETRAIN, encoder),
    Verb(
        "predict, file", ("predict", "model", "people.csv", "--out", "s.csv", "--batch-size", "7"), files("s.csv"),
        old=("predict", "model", "parts/0.csv", "--out", "s.csv"), needs_model=True, quick=True,
    ),
    Verb(
        "predict, many", ("predict", "model", "parts/*.csv", "--out", "scores"), files("scores/*"), needs_model=True
    ),
    Verb(
        "embed", ("embed", "model", "people.csv", "--out", "e.parquet", "--batch-size", "7"), files("e.parquet"),
        old=("embed", "model", "parts/0.csv", "--out", "e.parquet"), needs_model=True,
    ),
    Verb("predict, shards", (), files("scores/*"), action=score_in_shards, needs_model=True),
    Verb("embed, many", ("embed", "model", "parts/*.csv", "--out", "vectors"), files("vectors/*"), needs_model=True),
    Verb("report", ("report", "model"), files("model/report.html"), needs_model=True),
    Verb("export", ("export", "model", "--onnx", "m.onnx"), files("m.onnx"), needs_model=True),
    Verb("data prepare, files", ("data", "prepare", "loose"), files("data/loose/*.bin"), quick=True),
    Verb("data prepare, archive", ("data", "prepare", "packed"), unpacked),
    Verb("bench run", BENCH, cells),
    Verb("bench run, 2 jobs", (*BENCH, "--jobs", "2"), cells),
    Verb("cache", (), cached, action=fill_cache, quick=True),
)  # fmt: skip
