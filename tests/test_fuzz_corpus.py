"""Files that a reader once did not stand, as `make fuzz` found them: now read, or refused in one line."""

import gzip
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from dataset_examples import noise
from fuzz import earlier, official, stored
from fuzz.found import CASES, book
from fuzz.reader import MB, Files, files_in
from fuzz.readers import tried
from fuzz.trial import READ, REFUSED
from model_examples import onnx_model, random_model
from pucl.data.readers import idx, mat
from pucl.errors import InputError
from pucl.models.folder import save_model

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits of processes need Linux"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # of forking
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_file_that_was_found(case: str, tmp_path: Path) -> None:
    reader, name, content, end, why = CASES[case]
    outcome = tried(reader, {name: content()}, tmp_path)
    assert outcome.end == end, outcome.why
    assert why in outcome.why


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"</row>", b"", "table.xlsx cannot be read as a workbook: mismatched tag"),
        (b'r="2"', b'r="99999999999"', "table.xlsx must be a sheet of at most 20,000,000 cells"),
        (
            b"</sheetData>",
            b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>',
            "of at most 20,000,000 cells",
        ),
    ],
    ids=["damaged", "a row far away", "a cell far away"],
)
def test_a_workbook_that_was_found(old: bytes, new: bytes, why: str, tmp_path: Path) -> None:
    outcome = tried("Excel", {"table.xlsx": book(old, new, place=tmp_path)}, tmp_path)
    assert (outcome.end, why in outcome.why) == (REFUSED, True), outcome.why


def test_what_unpacks_to_more_than_a_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx, "LARGEST", 1000)
    monkeypatch.setattr(mat, "LARGEST", 10_000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(bytes(2 * MB)))
    with pytest.raises(InputError, match="x.gz: it has more than 1,000 bytes"):
        idx.read_idx(path, ndim=3)
    (tmp_path / "x.mat").write_bytes(
        official.mat({"X": noise(32, 32, 3, 9), "y": np.ones(9)}, do_compression=True)["train_32x32.mat"]
    )
    with pytest.raises(InputError, match="x.mat: .*a variable has more than 10,000 bytes"):
        mat.read_svhn(tmp_path / "x.mat")


def changed(files: Files, name: str, change: Callable[[Any], None]) -> Files:
    """With another content in a JSON file."""
    content = json.loads(files[name])
    change(content)
    return {**files, name: json.dumps(content).encode()}


def test_checkpoints_that_are_sealed_and_not_whole(tmp_path: Path) -> None:
    (seed,) = stored.checkpoint_seeds(tmp_path / "made")
    for key, value in (("run", None), ("step", "1"), ("state", [])):
        record = json.dumps({**json.loads(seed["step-00000002.json"]), key: value}).encode()
        files = stored.signed_checkpoint({**seed, "step-00000002.json": record})
        outcome = tried("checkpoint", files, tmp_path)
        assert (outcome.end, "not the JSON that was written" in outcome.why) == (REFUSED, True), outcome.why


def test_an_interrupted_fit_of_other_data(tmp_path: Path) -> None:
    (seed,) = stored.unfinished_seeds(tmp_path / "made")
    files = changed(seed, "fit.json", lambda content: content["data"].update(rows="twenty"))
    outcome = tried("interrupted fit", files, tmp_path)
    assert (outcome.end, "fit.json cannot be read: 'twenty' is not a whole number" in outcome.why) == (REFUSED, True)


def test_encoders_whose_parts_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    seed = stored.encoder_seeds(tmp_path / "made")[0]
    tensors = load(seed["encoder.safetensors"])
    shorter = save({**tensors, "standardise.mean": tensors["standardise.mean"][:2].clone()})
    unnamed = changed(seed, "encoder.json", lambda content: content.update(name=None))
    for files, why in (
        ({**seed, "encoder.safetensors": shorter}, "the scaling in"),
        (unnamed, "network must be a module to fill"),
    ):
        outcome = tried("encoder folder", stored.signed_encoder(files), tmp_path)
        assert (outcome.end, why in outcome.why) == (REFUSED, True), outcome.why


@pytest.mark.slow
def test_models_whose_parts_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    seed = stored.model_seeds(tmp_path / "made")[0]
    head = load(seed["head.safetensors"])
    shorter = {**seed, "head.safetensors": save({**head, "weight": head["weight"][:-1].clone()})}
    assert head["weight"].ndim == 1
    for files, why in (
        (shorter, "its encoder and its head do not belong together"),
        (
            changed(seed, "model.json", lambda content: content["record"].update(reasons=[1])),
            "the record of the fit is damaged",
        ),
        (
            changed(seed, "model.json", lambda content: content["schema"]["transform"].update(version=9)),
            "version of the table transform",
        ),
        (
            changed(seed, "model.json", lambda content: content["schema"]["columns"].pop("age")),
            "the stored schema is damaged",
        ),
    ):
        outcome = tried("model folder", stored.signed_model(files), tmp_path)
        assert (outcome.end, why in outcome.why, "heap" in outcome.why) == (REFUSED, True, True), outcome.why


@pytest.mark.slow
@pytest.mark.parametrize("name", ["points.labelled", "held_labelled", "place", "quantiles", "top.row"])
def test_evidence_of_another_shape_is_damaged(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    seed = stored.model_seeds(tmp_path / "made")[0]
    tensors = load(seed["evidence.safetensors"])
    for tensor in (tensors[name].unsqueeze(-1), tensors[name][:-1].clone(), tensors[name].to(torch.complex64)):
        if name == "quantiles" and tensor.ndim == 1 and not tensor.is_complex():
            continue  # it can have any length
        files = stored.signed_model({**seed, "evidence.safetensors": save({**tensors, name: tensor})})
        outcome = tried("model folder", files, tmp_path)
        expected = f"the stored evidence is damaged: {name.rpartition('.')[2]} has shape"
        assert (outcome.end, expected in outcome.why) == (REFUSED, True), outcome.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "name", "size"), [("kernel", "centres", ()), ("kernel", "centres", 20), ("knn", "rows", 20)]
)
def test_a_head_whose_matrix_is_none_gives_no_warning(head: str, name: str, size: Any, tmp_path: Path) -> None:
    model = random_model(stored.VECTOR, "raw", head)
    seed = files_in(save_model(tmp_path / "made", model))
    tensors = load(seed["head.safetensors"])
    key = next(key for key in tensors if key.endswith(name))
    files = {**seed, "head.safetensors": save({**tensors, key: torch.ones(size)})}
    outcome = tried("model folder", stored.signed_model(files), tmp_path)
    assert (outcome.end, "do not belong together" in outcome.why) == (REFUSED, True), outcome.why


def test_a_cache_with_texts_in_place_of_vectors(tmp_path: Path) -> None:
    base = sqlite3.connect(":memory:")
    base.executescript(
        "CREATE TABLE encoders (id INTEGER PRIMARY KEY, identity TEXT UNIQUE, name TEXT);"
        "CREATE TABLE vectors (n INTEGER PRIMARY KEY, encoder INTEGER, row BLOB, vector BLOB);"
        "INSERT INTO encoders VALUES (1, 'me', 'mine');"
    )
    base.execute("INSERT INTO vectors VALUES (1, 1, ?, 'text')", (b"k" * 16,))
    base.commit()
    assert tried("cache of embeddings", {"embeddings.sqlite": base.serialize()}, tmp_path).end == READ


def test_a_cache_whose_tables_are_damaged(tmp_path: Path) -> None:
    """What sqlite says of it quotes the damaged bytes, which are no text."""
    base = sqlite3.connect(":memory:")
    base.executescript("CREATE TABLE vectors (n); CREATE INDEX encoder_rows ON vectors (n);")
    data = base.serialize().replace(b"CREATE INDEX encoder_rows", b"CREATE INDEX encoder_r\xa6ws")
    outcome = tried("cache of embeddings", {"embeddings.sqlite": data}, tmp_path)
    assert (outcome.end, "embeddings.sqlite cannot be read" in outcome.why) == (REFUSED, True), outcome.why


@pytest.mark.parametrize("key", ["versions", "options", "data"])
@pytest.mark.parametrize("value", ["", [], None, 1])
def test_an_interrupted_fit_without_a_table(key: str, value: Any, tmp_path: Path) -> None:
    (seed,) = stored.unfinished_seeds(tmp_path / "made")
    files = changed(seed, "fit.json", lambda content: content.update({key: value}))
    outcome = tried("interrupted fit", files, tmp_path)
    assert (outcome.end, "fit.json cannot be read: " in outcome.why) == (REFUSED, True), outcome.why


@pytest.mark.parametrize("key", ["device", "x" * 3_000])
def test_an_interrupted_fit_with_a_long_text_in_it(key: str, tmp_path: Path) -> None:
    (seed,) = stored.unfinished_seeds(tmp_path / "made")

    def longer(content: Any) -> None:
        (content if key in content else content["options"])[key] = "x" * 3_000

    outcome = tried("interrupted fit", changed(seed, "fit.json", longer), tmp_path)
    assert (outcome.end, "delete " in outcome.why) == (REFUSED, True), outcome.why


def test_a_sample_of_a_table_whose_labels_are_none(tmp_path: Path) -> None:
    for header, why in (
        ("id,label,a", "table.csv, column 'label': s must be"),
        ("label,id,a", "table.csv: id column 'id' must be distinct ids"),
    ):
        rows = "".join(f"{i},{i % 3},2\n" if header.startswith("id") else f"{i % 2},{i % 7},2\n" for i in range(30))
        outcome = tried("sample of a table", {"table.csv": f"{header}\n{rows}".encode()}, tmp_path)
        assert (outcome.end, why in outcome.why) == (REFUSED, True), outcome.why


def test_models_with_a_damaged_encoder_in_front(tmp_path: Path) -> None:
    seed = files_in(save_model(tmp_path / "made", onnx_model(tmp_path)))
    weights = load(seed["front.safetensors"])
    broken = {name: tensor.clone().fill_(255) if name.endswith("file") else tensor for name, tensor in weights.items()}
    for files, why in (
        ({**seed, "front.json": b"\xff"}, "front.json cannot be read: "),
        (changed(seed, "front.json", lambda content: content.pop("extra")), "no usable name of the encoder"),
        ({**seed, "front.safetensors": save(broken)}, "encoder 'onnx:net.onnx': the file cannot be read as ONNX"),
    ):
        outcome = tried("model folder", stored.signed_model(files), tmp_path)
        assert (outcome.end, why in outcome.why) == (REFUSED, True), outcome.why


def test_a_folder_of_scores_with_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    done, begun, new = earlier.score_seeds(tmp_path / "made")
    for files in (done, begun, new):
        outcome = tried("folder of scores", {**files, "scores/\udcff": b"x"}, tmp_path)
        assert outcome.end == REFUSED, outcome.why
        assert "scores: the file b'" in outcome.why and outcome.why.endswith("\\xff' has a name that is not UTF-8")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, None),
        (b"\xff", None),
        (b"[1]", "one with results of another model"),
        (b"{}", "of another model"),
    ],
    ids=["deep", "no text", "list", "empty"],
)
def test_a_folder_of_scores_with_a_damaged_manifest(content: bytes, why: str | None, tmp_path: Path) -> None:
    """What cannot be read is as if it were not there; what says something else is refused."""
    (tmp_path / "made").mkdir()
    done, begun, _ = earlier.score_seeds(tmp_path / "made")
    for files, of_others in ((done, "one with rows.npy.parquet in it"), (begun, "")):
        expected = of_others if why is None else why
        outcome = tried("folder of scores", {**files, "scores/manifest.json": content}, tmp_path)
        assert (outcome.end, expected in outcome.why) == (REFUSED if expected else READ, True), outcome.why


@pytest.mark.parametrize("extra", [[], "text", {"revisions": []}, {"revisions": {}, "config": {}, "made": None}, None])
def test_a_stored_encoder_of_the_benchmark_whose_record_is_something_else(extra: Any, tmp_path: Path) -> None:
    seed = earlier.encoder_seeds(tmp_path / "made")[0]
    files = changed(seed, "encoder/encoder.json", lambda content: content.update(extra=extra))
    outcome = tried("encoders of the benchmark", files, tmp_path)
    assert (outcome.end, outcome.why) == (REFUSED, "encoder is made again")


@pytest.mark.parametrize("bias", [[], [0.0, 1.0]])
def test_a_stored_teacher_without_a_layer_is_fitted_again(bias: list[float], tmp_path: Path) -> None:
    seed = earlier.encoder_seeds(tmp_path / "made")[1]
    files = changed(seed, "encoder/encoder.json", lambda content: content["extra"]["made"].update(bias=bias))
    outcome = tried("encoders of the benchmark", files, tmp_path)
    assert (outcome.end, outcome.why) == (REFUSED, "encoder is made again")
