"""Many files: one file of scores each, the same by any number of processes, and what is refused or goes wrong."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_examples import changed, table_model, table_rows, write_table
from pucl.data.own import read
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError
from pucl.models.folder import load_model, save_model
from pucl.models.folders import Folder, find_tables
from pucl.models.many_files import FilesDone, embed_files, score_files
from pucl.models.scoring import embed_to_file, score_to_file

from conftest import Command

pq = pytest.importorskip("pyarrow.parquet")
fs = pytest.importorskip("pyarrow.fs")
pd = pytest.importorskip("pandas")
NAMES = ["a.parquet", "b.csv", "deep/c.parquet", "d.tsv"]
RESULTS = ["a.parquet", "b.csv", "d.tsv.parquet", "deep/c.parquet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    return save_model(folder / "model", table_model(folder))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four files of other rows, and files of other programs."""
    place = tmp_path / "data"
    (place / "deep").mkdir(parents=True)
    for i, name in enumerate(NAMES):
        frame = pd.read_csv(write_table(tmp_path / "t.csv", table_rows()[10 * i : 10 * i + 20]))
        if name.endswith(".parquet"):
            frame.to_parquet(place / name)
        else:
            frame.to_csv(place / name, index=False, sep="\t" if name.endswith("tsv") else ",")
    for name in ("_SUCCESS", ".a.parquet.crc", "notes.txt", "deep/.hidden.parquet"):
        (place / name).write_text("no table", encoding="utf-8")
    return place


def content(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()
    }


def run(folder: Path, data: Any, out: Path, **options: Any) -> FilesDone:
    return score_files(folder, str(data), str(out), **options)


def test_one_file_for_each_with_the_scores_of_that_file(folder: Path, data: Path, tmp_path: Path) -> None:
    done = run(folder, data, tmp_path / "out", recall=0.8, id_column="id")
    assert (done.files, done.there, done.rows, done.failed) == (4, 0, 80, ())
    assert done.rule == "above the threshold that finds 80% of hidden positives"
    found = content(tmp_path / "out")
    assert sorted(found) == sorted([*RESULTS, "manifest.json"])
    for name in ("a.parquet", "b.csv", "deep/c.parquet"):
        score_to_file(load_model(folder), data / name, tmp_path / Path(name).name, recall=0.8, id_column="id")
        assert found[name] == (tmp_path / Path(name).name).read_bytes()
    labels = [pq.read_table(tmp_path / "out" / name)["label"].to_pylist() for name in RESULTS if "parquet" in name]
    assert done.positive - found["b.csv"].count(b",1,") == sum(map(sum, labels)) > 0


def test_patterns(folder: Path, data: Path, tmp_path: Path) -> None:
    def names(pattern: str) -> list[str]:
        place, found = find_tables(pattern, "f")
        assert str(place.path) == str(data)
        return list(found)

    assert names(f"{data}") == names(f"{data}/**/*") == ["a.parquet", "b.csv", "d.tsv", "deep/c.parquet"]
    assert names(f"{data}/*.parquet") == ["a.parquet"]
    assert names(f"{data}/**/*.parquet") == ["a.parquet", "deep/c.parquet"]
    assert names(f"{data}/[bd].*") == ["b.csv", "d.tsv"] and names(f"{data}/?.csv") == ["b.csv"]
    assert names(f"{data}/d*/*") == ["deep/c.parquet"]
    assert names(f"{data}/b.csv") == ["b.csv"]
    for nothing in (f"{data}/*.npy", tmp_path / "nowhere", f"{data}/notes.txt"):
        with pytest.raises(InputError, match="source must be a pattern, a folder or a file with tables .*are none"):
            run(folder, nothing, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("n", [2, 6])
def test_shards_give_the_files_of_one_run(folder: Path, data: Path, tmp_path: Path, n: int) -> None:
    run(folder, data, tmp_path / "whole")
    for i in reversed(range(n)):
        run(folder, data, tmp_path / "parts", shard=(i, n))
        assert (tmp_path / "parts" / "manifest.json").is_file()  # with more shards than files too
    assert content(tmp_path / "parts") == content(tmp_path / "whole")


def test_a_second_run_does_what_is_missing(folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(folder, data, out)
    before = content(out)
    os.utime(out / "b.csv", (9e8, 9e8))  # older than its rows
    (out / "a.parquet").unlink()
    times = {name: (out / name).stat().st_mtime_ns for name in RESULTS if name != "a.parquet"}
    done = run(folder, data, out)
    assert (done.files, done.there, done.rows) == (2, 2, 40) and content(out) == before
    assert [name for name, time_ in times.items() if (out / name).stat().st_mtime_ns != time_] == ["b.csv"]
    assert run(folder, data, out).files == 0


def test_results_of_something_else_are_refused(folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(folder, data, out)
    before = content(out)
    other = save_model(tmp_path / "other", table_model(tmp_path, seed=1))
    allowed = f"pucl.score_files: out {out} must be new, empty or one with results of this model and these options"
    with pytest.raises(InputError, match=f"{allowed}, which a run completes; got one with results of another model"):
        run(other, data, out)
    for options in ({"threshold": 0.3}, {"id_column": "id"}):
        with pytest.raises(InputError, match="got one with results of other options"):
            run(folder, data, out, **options)
    with pytest.raises(InputError, match="got one with results of other options"):
        embed_files(folder, str(data), str(out))
    assert content(out) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "d").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="got one with d in it"):
        run(folder, data, tmp_path / "full")
    with pytest.raises(InputError, match="out must be another folder than that of the rows"):
        run(folder, data, data)
    for file in (data / "notes.txt", tmp_path / "scores.parquet"):
        with pytest.raises(InputError, match="out must be a folder, which gets a file for each file of rows; got"):
            run(folder, data, file)


def test_results_below_the_rows_are_no_rows(folder: Path, data: Path) -> None:
    assert run(folder, data, data / "scores").files == 4
    assert run(folder, data, data / "scores").there == 4


def test_a_bad_file_keeps_no_other_from_being_done(folder: Path, data: Path, tmp_path: Path) -> None:
    write_table(data / "b.csv", changed("age", "inf", 50))
    pd.DataFrame({"other": [1.0]}).to_parquet(data / "deep" / "c.parquet")
    (data / "e.parquet").write_bytes(b"PAR1 half of a file")
    done = run(folder, data, tmp_path / "out")
    assert done.files == 2 and sorted(content(tmp_path / "out")) == ["a.parquet", "d.tsv.parquet", "manifest.json"]
    reasons = dict(done.failed)
    assert sorted(reasons) == ["b.csv", "deep/c.parquet", "e.parquet"]
    assert "column 'age' must be finite or missing; got infinity at row 50" in reasons["b.csv"]
    assert "unknown column of c.parquet 'city'" in reasons["deep/c.parquet"]
    assert "e.parquet cannot be read" in reasons["e.parquet"]
    assert all("\n" not in reason for reason in reasons.values())


def test_a_file_that_disappears(folder: Path, data: Path, tmp_path: Path) -> None:
    def remove(_words: str, _share: float) -> None:
        (data / "deep" / "c.parquet").unlink(missing_ok=True)

    done = run(folder, data, tmp_path / "out", on_progress=remove)
    assert done.failed == (("deep/c.parquet", "it has disappeared since the run began"),) and done.files == 3


def test_nothing_is_left_where_nothing_could_be_done(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_table(tmp_path / "data" / "b.csv", changed("age", "inf", 50))
    assert len(run(folder, tmp_path / "data", tmp_path / "out").failed) == 1
    with pytest.raises(InputError, match="threshold must be a number strictly between 0 and 1; got 3"):
        run(folder, tmp_path / "data", tmp_path / "out", threshold=3)
    assert not (tmp_path / "out").exists()


def test_warnings_of_all_files_are_one(folder: Path, data: Path, tmp_path: Path) -> None:
    for name in ("b.csv", "f.csv"):
        write_table(data / name, changed("city", "Rome", 3, 30))
    with pytest.warns(ColumnWarning) as caught:
        run(folder, data, tmp_path / "out")
    (told,) = caught
    assert str(told.message).endswith("'Rome' did not occur in training; all its features are 0 in 4 rows")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Any:
    """A file system that is not that of this machine, as far as its paths go."""
    return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())


def test_other_file_systems(folder: Path, data: Path, tmp_path: Path, elsewhere: Any) -> None:
    expected = run(folder, data, tmp_path / "out")
    done = score_files(folder, "data/**/*", "far/away", filesystem=elsewhere)
    assert (done.files, done.rows, done.positive) == (4, 80, expected.positive)
    assert content(tmp_path / "far" / "away") == content(tmp_path / "out")
    assert score_files(folder, "data/**/*", "far/away", filesystem=elsewhere).there == 4
    address = score_files(folder, f"file://{data}/*.csv", f"file://{tmp_path}/by-address")
    assert address.files == 1 and (tmp_path / "by-address" / "b.csv").is_file()
    with pytest.raises(InputError, match="source must be a path, or an address that pyarrow.fs can open; got 'gopher:"):
        run(folder, "gopher://x/y/*.csv", tmp_path / "nowhere")


def test_a_file_in_memory_is_whole_or_not_there() -> None:
    memory = fs._MockFileSystem()
    place = Folder.of("out", "f", "out", memory)
    with place.writing("deep/x.csv") as file:
        file.write_text("new", encoding="utf-8")
        assert place.files() == {}
    assert list(place.files()) == ["deep/x.csv"]
    with place.reading("deep/x.csv") as file:
        assert file.read_text(encoding="utf-8") == "new"
    with suppress(ZeroDivisionError), place.writing("deep/y.csv") as file:
        file.write_text("half", encoding="utf-8")
        _ = 1 / 0
    assert list(place.files()) == ["deep/x.csv"]
    with pytest.raises(InputError, match="it has disappeared"), place.reading("deep/z.csv"):
        pass


def test_embeddings(folder: Path, data: Path, tmp_path: Path) -> None:
    done = embed_files(folder, str(data), str(tmp_path / "z"))
    assert (done.files, done.rows, done.rule) == (4, 80, "")
    assert embed_to_file(load_model(folder), data / "b.csv", tmp_path / "one.parquet", id_column="id") == 20
    rows = read(tmp_path / "one.parquet", label=np.arange(20) < 3, id_column="id")
    model = load_model(folder)
    expected = model.embed(model.schema.rows(pd.read_csv(data / "b.csv"))).numpy()
    assert rows.kind == "vector" and rows.ids.tolist() == [row[0] for row in table_rows()[10:30]]
    np.testing.assert_array_equal(rows.load(), expected)
    assert pq.read_table(tmp_path / "z" / "b.csv.parquet")["embedding"].to_pylist() == expected.tolist()
    with pytest.raises(InputError, match="pucl.embed_to_file: out must be a file that ends in .parquet"):
        embed_to_file(model, data / "b.csv", tmp_path / "one.csv")


def test_the_command(pucl: Command, folder: Path, data: Path, tmp_path: Path) -> None:
    first = pucl("predict", folder, f"{data}/**/*.*", "--out", "out")
    assert first == (0, first.out, "") and first.out.startswith("4 files written, 0 there already: 80 rows; ")
    assert "labelled positive (probability above 0.5)" in first.out and first.out.endswith(f"Scores: {tmp_path}/out\n")
    again = json.loads(pucl("predict", folder, data, "--out", "out", "--json").out)
    assert again["files"] == 0 and again["there"] == 4 and again["out"] == f"{tmp_path}/out"
    for i in range(2):
        assert pucl("predict", folder, data, "--shard", f"{i}/2", "--out", "shards").out.startswith("2 files written")
    assert content(tmp_path / "shards") == content(tmp_path / "out")
    assert pucl("embed", folder, data, "--shard", "0/1", "--out", "z").out == (
        f"4 files written, 0 there already: 80 rows\nEmbeddings: {tmp_path}/z\n"
    )
    assert pucl("embed", folder, data / "b.csv", "--out", "z.parquet").out == "20 rows\nEmbeddings: z.parquet\n"
    (data / "b.csv").write_text("age\n1\n", encoding="utf-8")
    bad = pucl("predict", folder, data, "--out", "out")
    assert bad.code == 1 and bad.err == "pucl predict: b.csv: unknown column of b.csv 'city': known: age\n"


def test_all_rows_in_one_file_where_one_is_asked_for(pucl: Command, folder: Path, data: Path, tmp_path: Path) -> None:
    (data / "notes.txt").unlink()  # with it the folder would be one of texts
    assert pucl("predict", folder, data, "--top", "5", "--out", "all.parquet").out.startswith("5 of 80 rows")
    together = pq.read_table(tmp_path / "all.parquet")
    pucl("predict", folder, data, "--out", "each")
    parts = [
        pd.read_csv(tmp_path / "each" / name) if name == "b.csv" else pd.read_parquet(tmp_path / "each" / name)
        for name in RESULTS
    ]
    assert together["probability"].to_pylist() == pytest.approx(pd.concat(parts)["probability"].tolist(), abs=1e-8)
    assert sum(together["label"].to_pylist()) == 5
    before = content(data)
    for source in (data, data / "*.parquet"):
        run = pucl("predict", folder, source, "--out", data / "a.parquet")
        assert run.code == 2 and "--out must be another file than the source" in run.err
    assert content(data) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--top", "3"),
            "--top must be left out for many files, as it ranks all rows (use --recall or --threshold)",
        ),
        (("--shard", "2/2"), "--shard must be 'i/n' with 0 ≤ i < n, such as 0/2 and 1/2; got 2/2"),
        (("--shard", "half"), "--shard must be 'i/n' with 0 ≤ i < n, such as 0/2 and 1/2; got 'half'"),
        (("--engine", "spark"), "--engine: unknown engine 'spark': known: ray"),
        (("--address", "auto"), "--address must be left out without --engine ray; got 'auto'"),
        (("--resize",), "--resize must be left out for many files, which are no images; got True"),
    ],
)
def test_options_of_many_files(
    pucl: Command, folder: Path, data: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    run = pucl("predict", folder, data, *words, "--out", "out")
    assert run.code == 2 and run.err.startswith(f"pucl predict: {message}") and run.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_ray_that_is_not_installed(
    pucl: Command, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    run = pucl("predict", folder, data, "--engine", "ray", "--out", "out")
    assert run == (2, "", "pucl predict: the engine 'ray' needs ray: pip install 'ray[data,train]'\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:9", "that of a running Ray cluster; got '127.0.0.1:9', which does not answer (Connection refused)"),
        ("ray://127.0.0.1:9", "that of a running Ray cluster; got 'ray://127.0.0.1:9', which does not answer"),
        ("nobody", "'auto', 'host:port' or 'ray://host:port'; got 'nobody'"),
    ],
)
def test_a_cluster_that_does_not_answer(
    pucl: Command, folder: Path, data: Path, tmp_path: Path, address: str, message: str
) -> None:
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    run = pucl("predict", folder, data, "--engine", "ray", "--address", address, "--out", "out")
    assert run.code == 2 and message in run.err and run.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
