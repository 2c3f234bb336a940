"""Scoring: the same scores from every source and in every batch size, a file that is whole or not there at all."""

import csv
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model_examples import (
    HEADER,
    N,
    changed,
    fitted,
    random_model,
    table_model,
    table_rows,
    vectors,
    write_images,
    write_table,
)
from pucl.data.own import read
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError
from pucl.models.folder import load_model, save_model
from pucl.models.model import Model
from pucl.models.schema import Schema
from pucl.models.scoring import COLUMNS, score_to_file, scores


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("people")
    return load_model(save_model(folder / "model", table_model(folder)))


def probabilities(model: Model, source: Any, **how: Any) -> Any:
    return np.concatenate([found.probability for found in scores(model, source, **how)])


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_scores_in_a_file(people: Model, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    source = write_table(tmp_path / "t.csv")
    progress: list[int] = []
    how: dict[str, Any] = {"id_column": "id", "threshold": 0.4, "batch_size": 25}
    found = score_to_file(people, source, tmp_path / "s.csv", on_progress=progress.append, **how)
    score_to_file(people, source, tmp_path / "s.parquet", **how)
    header, *rows = read_csv(tmp_path / "s.csv")
    stored = pq.read_table(tmp_path / "s.parquet").to_pydict()
    assert tuple(header) == tuple(stored) == COLUMNS
    assert progress == [25, 50, 60] and found.rows == N == len(rows)
    expected = torch.sigmoid(people.logits(people.schema.rows(read(source, label="known", id_column="id")))).numpy()
    assert [row[0] for row in rows] == stored["id"] == [row[0] for row in table_rows()]
    np.testing.assert_allclose([float(row[1]) for row in rows], expected, atol=1e-6)
    np.testing.assert_allclose(stored["probability"], expected, atol=1e-6)
    np.testing.assert_array_equal([row[2] == "1" for row in rows], expected > 0.4)
    assert stored["label"] == (expected > 0.4).tolist() and found.positive == sum(stored["label"]) > 0
    np.testing.assert_allclose(stored["reliability"], np.abs(2 * expected - 1), atol=1e-6)
    assert (expected[:20, None] > expected[None, 30:]).mean() > 0.8, "positives are older"


def test_ids_of_training_are_taken_where_they_are(people: Model, tmp_path: Path) -> None:
    source = write_table(tmp_path / "t.csv")
    named = replace(people, record=replace(people.record, id_column="id"))
    ids = np.concatenate([found.ids for found in scores(named, source)]).tolist()
    assert ids == [row[0] for row in table_rows()]
    elsewhere = replace(people, record=replace(people.record, id_column="passport"))
    assert np.concatenate([found.ids for found in scores(elsewhere, source)]).tolist() == list(range(N))


def test_every_source_and_batch_size_gives_the_same(people: Model, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    path = write_table(tmp_path / "t.csv")
    expected = probabilities(people, path)
    frame = pd.read_csv(path)
    frame.to_parquet(tmp_path / "t.parquet")
    turned = [[row[3], "x", row[2], row[1]] for row in table_rows()]
    other_order = write_table(tmp_path / "o.csv", turned, ["height", "new", "city", "age"])
    for source in (str(path), frame, tmp_path / "t.parquet", str(tmp_path / "t.parquet"), other_order):
        np.testing.assert_allclose(probabilities(people, source), expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(probabilities(people, path, batch_size=7), expected, rtol=0, atol=1e-6)


def test_vectors_from_arrays_and_files(tmp_path: Path) -> None:
    x = vectors()
    np.save(tmp_path / "v.npy", x)
    np.save(tmp_path / "s.npy", np.arange(N) < 20)
    model = fitted(tmp_path / "v.npy", {"label": str(tmp_path / "s.npy")})
    (found,) = scores(model, tmp_path / "v.npy")
    assert found.ids.tolist() == list(range(N))
    np.testing.assert_allclose(probabilities(model, x, batch_size=7), found.probability, atol=1e-6)
    x[41, 2] = np.nan
    with pytest.raises(InputError, match="must be finite; got NaN or infinity at row 41"):
        probabilities(model, x, batch_size=7)


def test_a_bad_row_leaves_nothing_behind(people: Model, tmp_path: Path) -> None:
    bad = write_table(tmp_path / "bad.csv", changed("age", "inf", 50))
    (tmp_path / "old.csv").write_text("old", encoding="utf-8")
    for out in (tmp_path / "old.csv", tmp_path / "new.parquet", tmp_path / "folder" / "new.csv"):
        with pytest.raises(InputError, match="column 'age' must be finite or missing; got infinity at row 50"):
            score_to_file(people, bad, out, batch_size=8)
    assert (tmp_path / "old.csv").read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "old.csv"]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("s.txt", "a file that ends in .parquet or .csv; got"),
        ("s", "a file that ends in .parquet or .csv; got"),
        ("taken.csv", "taken.csv must be a file; got a folder"),
        ("file/s.csv", "must be in a place that can be written to; .*file: Not a directory"),
        ("/proc/nothing/s.csv", "must be in a place that can be written to; /proc/nothing: "),
    ],
)
def test_places_that_cannot_be_written_to(people: Model, tmp_path: Path, out: str, message: str) -> None:
    (tmp_path / "taken.csv").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        score_to_file(people, tmp_path / "nobody looked for this.csv", tmp_path / out)


def test_new_categories_are_told_once_a_column(people: Model, tmp_path: Path) -> None:
    rows = changed("city", "Rome", 3, 30)
    rows[50][HEADER.index("city")] = "Oslo"
    rows[51][HEADER.index("age")] = ""
    source = write_table(tmp_path / "new.csv", rows)
    with pytest.warns(ColumnWarning) as caught:
        found = probabilities(people, source, batch_size=9)
    texts = [str(one.message) for one in caught]
    assert texts == [
        "column 'city': 'Oslo', 'Rome' did not occur in training; all its features are 0 in 3 rows",
        "column 'age' has missing values in 1 rows but had none in training; the median 44.8175 is taken",
    ]
    assert len(found) == N
    with pytest.raises(InputError, match="^pucl.score: column 'city': 'Rome' did not occur in training$"):
        score_to_file(people, source, tmp_path / "s.csv", batch_size=9, strict=True)
    assert not (tmp_path / "s.csv").exists()


def test_known_rows_are_scored_in_silence(people: Model, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probabilities(people, write_table(tmp_path / "t.csv"), strict=True)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([row[:3] for row in table_rows()], HEADER[:3], "'height'"),
        ([[row[0], row[1], row[3]] for row in table_rows()], ["id", "age", "height"], "'city'"),
        (changed("age", "old"), HEADER, "column 'age' must be numbers, as in training; got text"),
        (changed("age", "2020-01-01"), HEADER, "column 'age' must be numbers, as in training; got dates"),
        (changed("height", "tall", 40), HEADER, "column 'height' must be numbers, as in training; got text"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    people: Model, tmp_path: Path, rows: list[list[Any]], header: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        score_to_file(people, write_table(tmp_path / "t.csv", rows, header), tmp_path / "s.csv")
    assert not (tmp_path / "s.csv").exists()


def test_numbers_may_be_text_where_they_are_categories(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"code": np.arange(N) % 3, "age": np.arange(N) % 7, "s": np.arange(N) < 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = fitted(tmp_path / "t.csv", {"label": "s", "categorical": ("code",)})
    assert model.schema.transform is not None and model.schema.transform.categorical == ("code",)
    np.testing.assert_allclose(probabilities(model, tmp_path / "t.csv"), probabilities(model, frame), atol=1e-6)


@pytest.mark.parametrize("colour", [False, True])
def test_grey_and_colour_become_what_training_saw(tmp_path: Path, colour: bool) -> None:
    model = fitted(write_images(tmp_path / "train", colour=colour))
    assert model.schema.shape == (3 if colour else 1, 8, 8)
    other = write_images(tmp_path / "other", colour=not colour)
    found = next(scores(model, other))
    assert found.ids[0] == "positive/00.png" and len(found.ids) == 24
    assert found.probability[:8].mean() > found.probability[12:].mean()  # bright images still are
    with pytest.raises(InputError, match=f"{'colour' if colour else 'grey'} images of 8×8 .*as in training"):
        probabilities(model, np.zeros((2, 8, 8) if colour else (2, 8, 8, 3), dtype=np.uint8))


def test_images_of_another_size(tmp_path: Path) -> None:
    model = fitted(write_images(tmp_path / "train"))
    larger = write_images(tmp_path / "larger", side=12)
    with pytest.raises(InputError, match=r"grey images of 8×8 .*resize=True resizes files\); got shape \(1, 12, 12\)"):
        probabilities(model, larger)
    assert len(probabilities(model, larger, resize=True)) == 24
    write_images(tmp_path / "mixed", side=8, n=3)
    write_images(tmp_path / "mixed", side=6, n=1)
    with pytest.raises(InputError, match="got positive/00.png of 8×8 and unlabelled/00.png of 6×6"):
        probabilities(model, tmp_path / "mixed")
    resized = fitted(tmp_path / "larger", {"size": 8})
    assert len(probabilities(resized, tmp_path / "mixed")) == 4  # as its training images were


@pytest.mark.parametrize("how", [{"batch_size": 0}, {"threshold": 1.5}, {"threshold": "high"}])
def test_options_are_checked(people: Model, tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"pucl.score: {next(iter(how))} must be"):
        probabilities(people, write_table(tmp_path / "t.csv"), **how)


GROWTH = """
import sys
from pathlib import Path
from pucl.models.folder import load_model
from pucl.models.scoring import embed_to_file, score_to_file
def memory(key):
    return int(Path("/proc/self/status").read_text().split(key + ":")[1].split()[0]) / 1024
model, folder = load_model(sys.argv[1]), Path(sys.argv[2])
for write, out in ((score_to_file, "scores.csv"), (embed_to_file, "vectors.parquet")):
    write(model, folder / "few.npy", folder / out)
    Path("/proc/self/clear_refs").write_text("5")  # the largest memory from here on
    base = memory("VmRSS")
    write(model, folder / "many.npy", folder / out)
    print(memory("VmHWM") - base)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_scores_and_embeddings_take_memory_for_a_batch(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((400_000, 64), dtype=np.float32)
    np.save(tmp_path / "many.npy", rows)
    np.save(tmp_path / "few.npy", rows[:20_000])
    folder = save_model(tmp_path / "model", random_model(Schema("vector", (64,)), "raw"))
    run = subprocess.run([sys.executable, "-c", GROWTH, folder, tmp_path], capture_output=True, text=True, check=True)
    assert max(map(float, run.stdout.split())) < 30, f"MB; the rows take {rows.nbytes >> 20}: {run.stdout}"
