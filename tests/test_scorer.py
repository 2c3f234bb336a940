"""The scorer: the numbers of `pucl predict` from every kind of batch, in any process, and what it refuses."""

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model_examples import N, S, changed, fitted, table_model, vectors, write_images, write_table
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError
from pucl.models.folder import load_model, save_model
from pucl.models.scorer import Scorer, scorer
from pucl.models.scoring import score_to_file

from conftest import SRC, environment

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
NAMES = ["id", "probability", "label", "reliability"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    return save_model(folder / "model", table_model(folder))


@pytest.fixture
def people(tmp_path: Path) -> Any:
    write_table(tmp_path / "people.csv")
    return pd.read_csv(tmp_path / "people.csv")


def of_file(folder: Path, frame: Any, tmp_path: Path, **rule: Any) -> Any:
    """What `pucl predict` writes for the same rows."""
    frame.to_parquet(tmp_path / "rows.parquet")
    score_to_file(load_model(folder), tmp_path / "rows.parquet", tmp_path / "scores.parquet", **rule)
    return pd.read_parquet(tmp_path / "scores.parquet")


def same(scores: Any, expected: Any) -> bool:
    return all((np.asarray(scores[name]) == expected[name].to_numpy()).all() for name in NAMES)


@pytest.mark.parametrize("rule", [{}, {"threshold": 0.3}, {"recall": 0.7}, {"precision": 0.6}])
def test_the_numbers_of_predict_bit_for_bit(folder: Path, people: Any, tmp_path: Path, rule: dict[str, Any]) -> None:
    expected = of_file(folder, people, tmp_path, **rule)
    assert same(scorer(folder, **rule)(people), expected)
    assert same(load_model(folder).scorer(**rule)(people), expected)


def test_every_kind_of_batch_comes_back_as_what_it_is(folder: Path, people: Any, tmp_path: Path) -> None:
    expected, score = of_file(folder, people, tmp_path), scorer(folder)
    table = pa.Table.from_pandas(people)
    arrays = {name: people[name].to_numpy() for name in people}
    batches: list[Any] = [people, table, table.to_batches()[0], arrays, people.to_dict("list")]
    for batch in batches:
        scores = score(batch)
        assert type(scores) is type(batch) and same(scores, expected)
    in_pieces = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert same(score(in_pieces), expected)
    shifted = people.set_index(people.index + 5)
    assert score(shifted).index.equals(shifted.index)


def test_polars(folder: Path, people: Any, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    scores = scorer(folder)(pl.from_pandas(people))
    assert isinstance(scores, pl.DataFrame) and same(scores, of_file(folder, people, tmp_path))


def test_columns_that_are_kept(folder: Path, people: Any) -> None:
    assert list(scorer(folder)(people)) == NAMES
    assert list(scorer(folder, keep=["city", "known"])(people)) == ["city", "known", *NAMES[1:]]
    assert list(scorer(folder, keep=[])(people)) == NAMES[1:]
    assert list(scorer(folder)(people.drop(columns=["id", "known"]))) == NAMES[1:]


def test_no_rows(folder: Path, people: Any) -> None:
    empty = scorer(folder)(people[:0])
    assert list(empty) == NAMES and len(empty) == 0 and empty["label"].dtype == bool
    assert scorer(folder)(pa.Table.from_pandas(people[:0])).column_names == NAMES


def test_images_and_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", vectors())
    np.save(tmp_path / "s.npy", S)
    model = fitted(tmp_path / "v.npy", {"label": str(tmp_path / "s.npy")})
    expected = torch.sigmoid(model.logits(torch.from_numpy(vectors())).double()).numpy()
    table = pa.table({"id": np.arange(N), "z": pa.FixedSizeListArray.from_arrays(vectors().reshape(-1), 4)})
    frame = pd.DataFrame({"id": np.arange(N), "z": list(vectors())})
    for batch in (vectors(), {"z": vectors()}, {"id": np.arange(N), "z": vectors()}):
        np.testing.assert_array_equal(model.scorer()(batch)["probability"], expected)
    for batch in (table, frame):
        np.testing.assert_array_equal(np.asarray(model.scorer(column="z")(batch)["probability"]), expected)
    with pytest.raises(InputError, match="column must be the name of the column that holds the rows; got a batch with"):
        model.scorer()({"a": vectors(), "b": vectors()})
    images = fitted(write_images(tmp_path / "pictures"))
    x = np.random.default_rng(0).integers(256, size=(5, 8, 8)).astype(np.uint8)
    expected = torch.sigmoid(images.logits(torch.from_numpy(x[:, None])).double()).numpy()
    np.testing.assert_array_equal(images.scorer()({"image": x, "name": list("abcde")})["probability"], expected)
    np.testing.assert_array_equal(images.scorer()({"image": x[..., None]})["probability"], expected)


def test_texts(tmp_path: Path) -> None:
    texts = [f"{'good fine' if i < 30 else 'bad poor'} number {i} of them all" for i in range(N)]
    frame = pd.DataFrame({"text": texts, "known": S})
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = fitted(tmp_path / "t.csv", {"label": "known", "text_columns": ("text",)})
    expected = model.scorer()({"text": texts})["probability"]
    other = pd.DataFrame({"review": texts, "n": range(N)})
    np.testing.assert_array_equal(model.scorer(column="review")(other)["probability"], expected)


LOADS = """
import pickle, sys
scorer = pickle.loads(sys.stdin.buffer.read())
assert "torch" in sys.modules
import pucl.models.source as source
loads, load = [], source.load_model
source.load_model = lambda folder: loads.append(folder) or load(folder)
batch = {"id": ["a"], "age": [50.0], "city": ["Ulm"], "height": [1.7]}
again = pickle.loads(pickle.dumps(scorer))
print(len(loads), *(each(batch)["probability"][0].hex() for each in (scorer, scorer, again)), len(loads))
"""


@pytest.mark.slow
def test_a_process_loads_the_model_at_the_first_batch_and_once(folder: Path) -> None:
    score = scorer(folder)
    run = subprocess.run(
        [sys.executable, "-c", LOADS], input=pickle.dumps(score), capture_output=True, check=True, env=environment(SRC)
    )
    here = score({"id": ["a"], "age": [50.0], "city": ["Ulm"], "height": [1.7]})["probability"][0].hex()
    assert run.stdout.decode().split() == ["0", here, here, here, "1"]


@pytest.mark.slow
def test_a_pool_of_processes(folder: Path, people: Any, tmp_path: Path) -> None:
    score = load_model(folder).scorer()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        parts = pool.map(score, [people[:25], people[25:]])
    np.testing.assert_allclose(
        pd.concat(parts)["probability"], of_file(folder, people, tmp_path)["probability"], rtol=0, atol=1e-7
    )


def test_a_model_in_memory_needs_no_folder(folder: Path, tmp_path: Path, people: Any) -> None:
    copy = save_model(tmp_path / "copy", load_model(folder))
    held, named = load_model(copy).scorer(), scorer(copy)
    later = pickle.loads(pickle.dumps(held))  # noqa: S301
    (copy / "model.json").unlink()
    assert len(later(people)) == N
    with pytest.raises(InputError, match=r"pucl.scorer: folder must be a model folder"):
        scorer(copy)
    assert isinstance(named, Scorer)


def test_a_model_that_was_replaced_is_refused(tmp_path: Path, people: Any) -> None:
    place = save_model(tmp_path / "m", table_model(tmp_path))
    score = scorer(place)
    save_model(place, table_model(tmp_path, seed=1))
    with pytest.raises(InputError, match=f"pucl.scorer: the model in {place} has been replaced"):
        score(people)


def test_what_does_not_fit(folder: Path, people: Any) -> None:
    for batch in (people[["id", "city", "height"]], {"age": [3.0], "city": ["Ulm"]}):
        with pytest.raises(InputError, match=r"^pucl.scorer: unknown column of the frame '(age|height)'"):
            scorer(folder)(batch)
    with pytest.raises(InputError, match=r"unknown column of the frame 'age' \(and 'city', 'height'\): known: a, b"):
        scorer(folder)({"a": [1.0], "b": [2.0]})
    with pytest.raises(InputError, match="unknown column of the batch 'name': did you mean"):
        scorer(folder, keep=["name"])(people.rename(columns={"id": "names"}))
    with pytest.raises(InputError, match="keep must be columns with other names than those of the scores .* got 'lab"):
        scorer(folder, keep=["label"])
    with pytest.raises(InputError, match="pucl.scorer: threshold must be a number strictly between 0 and 1; got 2"):
        scorer(folder, threshold=2)
    with pytest.raises(InputError, match="pucl.scorer: recall and precision must be given one at a time"):
        load_model(folder).scorer(recall=0.5, precision=0.5)


def test_new_categories(folder: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(write_table(tmp_path / "new.csv", changed("city", "Rome", 3, 30)))
    with pytest.warns(ColumnWarning, match="'Rome' did not occur in training"):
        scorer(folder)(rows)
    with pytest.raises(InputError, match="^pucl.scorer: column 'city': 'Rome' did not occur in training$"):
        scorer(folder, strict=True)(rows)
