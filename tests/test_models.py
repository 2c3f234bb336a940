"""Model folders: what comes back, what is refused, and what is left when a save is interrupted."""

import json
import math
import pickle
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model_examples import N, fitted, random_model, resign, sha256, table_model, vectors, write_images, write_table
from pucl.errors import InputError, RunError
from pucl.models.folder import check_out, load_model, read_card, save_model
from pucl.models.model import Model
from pucl.models.schema import Schema, learn_schema

VECTOR = Schema("vector", (4,))
FILES = ("encoder.json", "encoder.safetensors", "evidence.safetensors", "head.safetensors", "model.json")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return table_model(tmp_path_factory.mktemp("people"))


@pytest.fixture
def folder(people: Model, tmp_path: Path) -> Path:
    return save_model(tmp_path / "model", people)


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_model(folder)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 400
    return text


def test_a_table_model_comes_back(people: Model, folder: Path) -> None:
    assert tuple(sorted(path.name for path in folder.iterdir())) == FILES
    found = load_model(folder)
    assert found.schema == people.schema and list(found.schema.columns) == ["age", "city", "height"]
    assert found.record == people.record and found.prior == people.prior
    with pytest.warns(FutureWarning, match="pucl.Model: 'about' is now called 'record'"):
        assert found.about == json.loads(json.dumps(people.record.to_dict()))
    rows = torch.randn(5, *people.schema.shape)
    torch.testing.assert_close(found.logits(rows), people.logits(rows), rtol=0, atol=0)
    assert found.evidence is not None and people.evidence is not None
    assert found.evidence.top.ids == people.evidence.top.ids and found.evidence.top.values == people.evidence.top.values
    np.testing.assert_array_equal(found.evidence.quantiles, people.evidence.quantiles)


@pytest.mark.parametrize("head", ["linear", "kernel", "mlp", "knn", "trees"])
def test_every_head_comes_back(tmp_path: Path, head: str) -> None:
    model = random_model(VECTOR, "mlp", head)
    found = load_model(save_model(tmp_path, model))
    rows = torch.randn(9, 4)
    assert torch.equal(found.logits(rows), model.logits(rows))
    assert type(found.head.head) is type(model.head.head) and found.evidence is None


def test_images_come_back(tmp_path: Path) -> None:
    model = fitted(write_images(tmp_path / "pictures"))
    assert model.schema.shape == (1, 8, 8)
    found = load_model(save_model(tmp_path / "model", model))
    assert found.evidence is not None and model.evidence is not None
    assert found.evidence.top.pictures is not None and model.evidence.top.pictures is not None
    np.testing.assert_array_equal(found.evidence.top.pictures, model.evidence.top.pictures)


def test_model_json_says_what_it_is(folder: Path) -> None:
    card = read_card(folder)
    assert card.format == 2 and card.written_by == card.record.pucl_version
    assert str(card.record.fingerprint).startswith(f"{N} of {N} rows, sha256 ")
    assert card.record.choices.labeller == "pupl" and card.record.metrics is not None
    assert card.schema.transform is not None
    assert [rule.name for rule in card.schema.transform.rules] == ["age", "city", "height"]
    stored = json.loads((folder / "model.json").read_text(encoding="utf-8"))["record"]
    assert stored["record_version"] == 4 and set(stored["metrics"]) >= {"auc", "recall"}


def test_the_order_of_columns_is_kept(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names, x = [f"d{j}" for j in (10, 9, 1, 0)], vectors()
    table = pa.table({**{name: x[:, j] for j, name in enumerate(names)}, "s": np.arange(N) < 20})
    pq.write_table(table, tmp_path / "z.parquet")
    model = fitted(tmp_path / "z.parquet", {"label": "s", "kind": "vector"})
    found = load_model(save_model(tmp_path / "model", model))
    assert found.schema.needed == tuple(names)
    np.testing.assert_array_equal(found.schema.rows(table).numpy(), x)


def test_a_matrix_of_many_columns_is_known_again(tmp_path: Path) -> None:
    x = vectors(12)
    schema, _ = learn_schema(x, kind="table")
    found = load_model(save_model(tmp_path, random_model(schema, "mlp")))
    np.testing.assert_array_equal(found.schema.rows(x), schema.rows(x))


def damage_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def as_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"weight": 1}))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [damage_byte, truncate, empty, as_pickle, Path.unlink])
def test_damaged_files_are_refused(folder: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(folder / name)
    assert name in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_files_of_another_model_are_refused(folder: Path, tmp_path: Path, name: str) -> None:
    other = save_model(tmp_path / "other", table_model(tmp_path, prior=0.4, encoder="mlp", epochs=1))
    shutil.copy(other / name, folder / name)
    refused(folder)


def test_an_edited_schema_is_refused(folder: Path) -> None:
    path = folder / "model.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"height"', '"weight"'), encoding="utf-8")
    assert "as it was written (by its SHA-256); got a changed file" in refused(folder)
    content = json.loads(text)
    columns = content["schema"]["columns"]
    content["schema"]["columns"] = dict(reversed(columns.items()))
    path.write_text(json.dumps(content), encoding="utf-8")
    assert "got a changed file" in refused(folder)


def test_a_schema_of_another_shape_is_refused_even_signed(tmp_path: Path) -> None:
    folder = save_model(tmp_path, random_model(VECTOR, "mlp"))
    resign(folder, schema=Schema("vector", (5,)).to_dict())
    assert "an encoder and a schema that belong together" in refused(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 3, "written_by": "9.9"}, "format 2 or lower; got format 3; install pucl 9.9 or newer"),
        ({"format": 0, "written_by": "0.0.1"}, "got format 0; fit it again, or install pucl 0.0.1"),
        ({"format": "one"}, "written by pucl; got another JSON file"),
        ({"schema": None}, "no usable schema"),
        ({"record": []}, "no usable record"),
        ({"record": {}}, "the record of the fit is damaged ('kind' is missing); fit the model again"),
        ({"record": {"record_version": 9}}, "the record of the fit has version 9; a newer pucl can read it"),
        ({"schema": {"kind": "sound"}}, "not a stored schema"),
        ({"head": {"kind": "forest", "shift": 0, "temperature": 1}}, "the stored head cannot be used"),
        ({"head": {}}, "the stored head cannot be used"),
        ({"files": {}}, "about encoder.json"),
        ({"evidence": None}, "the stored evidence is damaged"),
    ],
)
def test_other_versions_and_contents(folder: Path, content: dict[str, Any], message: str) -> None:
    resign(folder, **content)
    assert message in refused(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '"model"', '{"format": NaN}', "\x80\x04}", '{"format": 1, "a": NaN}'])
def test_what_is_no_model(tmp_path: Path, text: str) -> None:
    assert "a model folder, with model.json in it" in refused(tmp_path)
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    assert "model.json" in refused(tmp_path)


class Explosive:
    """A pickle that leaves a trace when it is read."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("name", ["extra.pkl", "weights.pt", "notes", "head.safetensors", "encoder.safetensors"])
def test_pickles_are_refused_and_never_read(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps(Explosive(tmp_path / "trace")))
    resign(folder)
    if name == "encoder.safetensors":
        stored = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
        stored["sha256"] = sha256((folder / name).read_bytes())
        (folder / "encoder.json").write_text(json.dumps(stored), encoding="utf-8")
        resign(folder)
    assert name in refused(folder)
    assert not (tmp_path / "trace").exists()


def test_loading_does_not_unpickle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise AssertionError("unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    load_model(folder)


def test_a_header_of_128_bytes_is_no_pickle(folder: Path) -> None:
    """The first byte of a safetensors file is that of a length; one in 32 headers starts as pickles do."""
    path = folder / "head.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    longer = (length // 256 + 1) * 256 + 128
    path.write_bytes(struct.pack("<Q", longer) + data[8 : 8 + length].ljust(longer) + data[8 + length :])
    resign(folder)
    assert path.read_bytes()[:1] == b"\x80"
    load_model(folder)


def test_other_files_may_lie_beside_a_model(folder: Path, people: Model) -> None:
    (folder / "report.html").write_text("<html>", encoding="utf-8")
    load_model(save_model(folder, people))
    assert (folder / "report.html").read_text(encoding="utf-8") == "<html>"


def test_a_folder_that_is_no_model_is_not_written_to(tmp_path: Path, people: Model) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="new, empty or a model that is to be replaced; got one with thesis.txt in it"):
        save_model(tmp_path, people)
    with pytest.raises(InputError, match="thesis.txt must be a folder; got a file"):
        save_model(tmp_path / "thesis.txt", people)
    for place in (tmp_path / "thesis.txt" / "model", Path("/proc/nothing/model")):
        with pytest.raises(InputError, match="in a place that can be written to; .*model: "):
            check_out(place)
    check_out(tmp_path / "a" / "b" / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_cannot_be_written_leaves_the_old_model(folder: Path, people: Model, tmp_path: Path) -> None:
    bad = Model(
        people.schema, people.encoder, people.encoder_name, people.head, replace(people.record, seconds=math.nan)
    )
    for place in (folder, tmp_path / "new"):
        with pytest.raises(InputError, match="model.record must be what JSON can hold"):
            save_model(place, bad)
    assert load_model(folder).record.kind == "table"
    assert not (folder / ".new").exists() and not (tmp_path / "new").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("moves", range(10))
def test_an_interrupted_save_never_leaves_a_mixture(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moves: int, error: BaseException
) -> None:
    """Four files are written, their folder is renamed, and they are copied; what loads is one model or the other."""
    new = random_model(VECTOR, "mlp")
    whole = Path.replace
    done: list[Path] = []

    def replace(self: Path, target: Any) -> Path:
        if len(done) == moves:
            raise error
        done.append(target)
        return whole(self, target)

    with monkeypatch.context() as patch, suppress(RunError, KeyboardInterrupt):
        patch.setattr(Path, "replace", replace)
        save_model(folder, new)
    assert load_model(folder).schema.kind == ("table" if moves < 5 else "vector")
    assert read_card(folder).schema.kind == load_model(folder).schema.kind
    assert load_model(save_model(folder, new)).schema.kind == "vector"
    assert not [name for name in ("evidence.safetensors", ".new", ".ready") if (folder / name).exists()]


def test_a_network_of_ones_own_must_be_given(tmp_path: Path) -> None:
    model = random_model(VECTOR, "mlp")
    own = Model(model.schema, model.encoder, None, model.head, model.record)
    save_model(tmp_path, own)
    assert "network must be a module to fill" in refused(tmp_path)
    network = random_model(VECTOR, "mlp").encoder.network
    rows = torch.randn(3, 4)
    assert torch.equal(load_model(tmp_path, network=network).logits(rows), model.logits(rows))


def test_what_a_schema_refuses(people: Model, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    pictures = Schema("image", (1, 8, 8))
    for schema, source, message in (
        (
            people.schema,
            np.zeros((3, 5)),
            "columns have the names of training: age, city, height; .* got an array",
        ),
        (people.schema, empty, "a table .* got the folder"),
        (VECTOR, np.zeros((3, 5), dtype=np.float32), "vectors of 4 numbers, as in training; got shape .5,."),
        (VECTOR, np.zeros((3, 8, 8), dtype=np.uint8), "kind must be 'image'"),
        (pictures, write_table(tmp_path / "t.csv"), "grey images of 8×8 .* got the file"),
        (pictures, np.zeros((3, 8, 8, 3), dtype=np.uint8), "grey images of 8×8 .* got shape .3, 8, 8."),
        (pictures, np.full((3, 8, 8), 200.0), "within .0, 1. or of uint8.*; got values from 200 to 200"),
    ):
        with pytest.raises(InputError, match=message):
            schema.rows(source)


def test_images_of_floats_are_scaled_as_in_training() -> None:
    images = np.linspace(-1, 3, 2 * 64, dtype=np.float32).reshape(2, 8, 8)
    schema, rows = learn_schema(images)
    assert (schema.low, schema.span) == (-1, 4)
    assert (float(rows.min()), float(rows.max())) == (0, 1)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert learn_schema(images * 50 + 60)[0].span == 255
