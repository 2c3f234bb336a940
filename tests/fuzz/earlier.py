"""What a run finds of earlier runs: the folder of scores that it completes, and stored encoders of the benchmark."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from fuzz.reader import MB, Files, Reader, files_in
from fuzz.stored import VECTOR, signed_encoder
from fuzz.structured import odd_json
from model_examples import random_model
from pucl.bench.grid.cells import Pipeline
from pucl.bench.run.encoding import EncoderStore, KeptTeacher, Training
from pucl.bench.run.stored_teachers import restored
from pucl.errors import InputError
from pucl.models.folder import save_model
from pucl.models.many_files import MANIFEST, score_files
from pucl.models.schema import Schema

from bench_examples import cells_of

SCORES, ENCODER = "scores", "encoder"
NAMES = ("a.parquet", "b\n.csv", "=x", "\udcff", "é" * 80, ".hidden", "rows.csv")  # of other files in the folder
TEACHER = KeptTeacher((0.5,) * 4, (0.0,), ())


def score_seeds(place: Path) -> Sequence[Files]:
    """A model, rows, and the folder of their scores: done, begun, and not begun."""
    save_model(place / "model", random_model(VECTOR, "raw"))
    np.save(place / "rows.npy", np.zeros((3, 4), "f4"))
    _score(place)
    done = files_in(place)
    begun = {name: data for name, data in done.items() if not name.startswith(SCORES) or name.endswith(MANIFEST)}
    return [done, begun, {name: data for name, data in begun.items() if not name.endswith(MANIFEST)}]


def _score(folder: Path) -> object:
    found = score_files(folder / "model", str(folder / "rows.npy"), str(folder / SCORES))
    if found.failed:
        return found
    if not (folder / SCORES / MANIFEST).is_file() or found.files + found.there != 1:
        raise AssertionError(f"{found} without a manifest")
    return found


def _manifest(rng: Random, seeds: Sequence[Files]) -> Files:
    """Other values in the manifest, and other files in the folder."""
    files = dict(rng.choice(seeds))
    name = f"{SCORES}/{MANIFEST}"
    if name in files and rng.random() < 0.8:
        files[name] = odd_json(rng, files[name])
    if rng.random() < 0.3:
        files[f"{SCORES}/{rng.choice(NAMES)}"] = b"x"
    return files


@cache
def _cell() -> Pipeline:
    return cells_of()[0]


def encoder_seeds(place: Path) -> Sequence[Files]:
    """A trained encoder, and a fine-tuned teacher."""
    store, cell = EncoderStore(place, "cpu"), _cell().encoder_cell
    encoder = random_model(Schema("image", (1, 8, 8)), "small_cnn").encoder
    looks = {"1": {"loss": 0.5, "knn": 0.75}}
    store.save(place / "trained" / ENCODER, cell, encoder, (1, 8, 8), Training(0.5, 1.5, None, looks))
    store.save(place / "taught" / ENCODER, cell, encoder, (1, 8, 8), TEACHER)
    return [files_in(place / name) for name in ("trained", "taught")]


def _stored(folder: Path) -> object:
    """The encoder or the teacher and its record; what cannot be used is as if it were not there, and made again."""
    store, cell = EncoderStore(folder, "cpu"), _cell().encoder_cell
    try:
        trained = store.stored(folder / ENCODER, cell, Training)
        taught = store.stored(folder / ENCODER, cell, KeptTeacher)
    except InputError as error:
        raise AssertionError(f"it is refused: {error}") from None
    if trained is None and taught is None:
        raise InputError(f"{ENCODER} is made again")
    return trained, taught and restored(*taught, "cpu")


def _record(rng: Random, seeds: Sequence[Files]) -> Files:
    files = dict(rng.choice(seeds))
    name = f"{ENCODER}/encoder.json"
    content = odd_json(rng, files[name])
    if rng.random() < 0.2:
        content = json.dumps(rng.choice(([], "extra", 1, {"extra": []}, {"extra": {"revisions": 1}}))).encode()
    return _signed({**files, name: content})


def _signed(files: Files) -> Files:
    """With the checksum of the weights in the record."""
    inner = {name.removeprefix(f"{ENCODER}/"): data for name, data in files.items()}
    return {f"{ENCODER}/{name}": data for name, data in signed_encoder(inner).items()}


READERS = (
    Reader("folder of scores", score_seeds, _score, {"values": _manifest}, share=20, memory=64 * MB),
    Reader(
        "encoders of the benchmark",
        encoder_seeds,
        _stored,
        {"values": _record},
        mended=_signed,
        share=20,
        memory=600 * MB,
    ),
)
