"""A fit from more rows than it learns from: one pass, the same model from the same rows, counts of all rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_examples import HEADER, QUICK, N, S, table_rows, write_table
from pucl.data.own import ReadOptions
from pucl.errors import InputError
from pucl.fitting import sampling
from pucl.fitting.from_files import estimate_prior_of_files, fit_files
from pucl.fitting.plan import FitOptions
from pucl.fitting.progress import StageProgress
from pucl.models.folder import load_model
from pucl.models.model import Model
from pucl.models.record import RowCounts, Sampling
from pucl.report import write_report

from conftest import Command

pytest.importorskip("pyarrow")
READ = ("--label", "known", "--id-column", "id")
RAW = ("--encoder", "raw", "--head", "linear", "--labeller", "pupl", "--prior", "0.3")


def parts(folder: Path, *cuts: int, reverse: bool = False) -> Path:
    """people.csv in several files."""
    folder.mkdir()
    rows = table_rows()[::-1] if reverse else table_rows()
    for k, (start, stop) in enumerate(zip((0, *cuts), (*cuts, N), strict=True)):
        write_table(folder / f"{k}.csv", rows[start:stop])
    return folder


def fitted(source: Path, max_rows: int | None, **reading: Any) -> Model:
    options = ReadOptions(**{"label": "known", "id_column": "id", **reading})
    return fit_files(source, options, FitOptions(**QUICK), max_rows=max_rows)


def weights(folder: str) -> bytes:
    return Path(folder, "head.safetensors").read_bytes()


def test_the_command_says_what_it_has_learned_from(pucl: Command, tmp_path: Path) -> None:
    parts(tmp_path / "one"), parts(tmp_path / "many", 7, 30, reverse=True)
    run = pucl("fit", "one", *READ, *RAW, "--rows", "40", "--out", "m1")
    assert run.code == 0 and run.err == "" and "Data: 60 rows (table), 20 of them labelled positives.\n" in run.out
    assert (
        "Learned from 40 of them: all 20 labelled positives and a random 20 of 40 unlabelled rows (50 %), drawn by the "
        "id in column 'id' with seed 0. 40 rows were asked for.\n"
    ) in run.out
    assert "0.300, as given. Of all 40 unlabelled rows that is about 12.\n" in run.out
    again = json.loads(pucl("fit", "many/*.csv", *READ, *RAW, "--rows", "40", "--out", "m2", "--json").out)
    assert again["sampling"]["rows"] == {"n": 60, "labelled": 20, "unlabelled": 40, "negative": 0}
    assert again["rows"]["n"] == 40 and again["source_rows"] == 60 and again["source"] == "*.csv"
    assert weights("m1") == weights("m2"), "the same rows in other files, in another order"
    assert pucl("fit", "one", *READ, *RAW, "--rows", "40", "--seed", "1", "--out", "m3").code == 0
    assert weights("m3") != weights("m1")


def test_as_many_rows_as_there_are_change_nothing(pucl: Command, tmp_path: Path) -> None:
    parts(tmp_path / "many", 7, 30)
    for k, words in enumerate((("people.csv",), ("people.csv", "--rows", "60"), ("many", "--rows", "99"))):
        run = pucl("fit", *words, *READ, *RAW, "--out", f"m{k}")
        assert run.code == 0 and run.err == "" and "Learned from" not in run.out
        record = load_model(f"m{k}").record
        assert record.sampling is None and "sampling" not in record.to_dict() and record.source_rows == 60
        assert weights(f"m{k}") == weights("m0") and record.fingerprint == load_model("m0").record.fingerprint


def test_the_default_is_said_and_part_of_how_to_do_it_again(pucl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_ROWS", 40)
    run = pucl("fit", "people.csv", *READ, *RAW, "--out", "m")
    assert "with seed 0. 40 rows are the default: more hardly make a better model, and take longer.\n" in run.out
    command = load_model("m").record.command
    assert command is not None and command.endswith(" --out m --rows 40 --seed 0")


def test_fewer_rows_than_positives(pucl: Command) -> None:
    run = pucl("fit", "people.csv", *READ, *RAW, "--rows", "16", "--out", "m")
    assert run.code == 0
    assert "a random 8 of 20 labelled positives (40 %) and a random 8 of 40 unlabelled rows (20 %)" in run.out
    assert (
        "--rows must be a whole number ≥ 4; got 3" in pucl("fit", "people.csv", *READ, "--rows", "3", "--out", "n").err
    )
    assert not Path("n").exists()


def test_mistakes_in_many_files(pucl: Command, tmp_path: Path) -> None:
    parts(tmp_path / "many", 7, 30)
    write_table(tmp_path / "many" / "2.csv", [row[:4] for row in table_rows()[30:]], HEADER[:4])
    for words, message in (
        (
            ("many", *READ),
            "pucl fit, many: column 'known' must be in every file, of the type it has in 0.csv; got none in 2.csv",
        ),
        (("*.parquet", *READ), "pucl fit: DATA must be a pattern that matches files"),
    ):
        run = pucl("fit", *words, *RAW, "--rows", "40", "--out", "m")
        assert run.code == 2 and run.err.count("\n") == 1 and message in run.err and not Path("m").exists()


@pytest.mark.filterwarnings("ignore")
def test_columns_of_no_use_are_one_line(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"raw": [b"a", b"b"] * 30, "known": S.astype(int)}), tmp_path / "t.parquet")
    for max_rows in (None, 40):
        with pytest.raises(InputError, match="binary"):
            fitted(tmp_path / "t.parquet", max_rows, id_column=None)


def test_the_report_counts_all_rows(tmp_path: Path) -> None:
    model = fitted(write_table(tmp_path / "people.csv"), 40)
    assert model.evidence is not None and model.evidence.n_unlabelled == 40 and model.record.rows.unlabelled == 20
    write_report(tmp_path / "report.html", model)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A sample. The model has learned from" in page and "About 12 of 40 rows" in page
    assert "<dt>Rows learned from</dt><dd>40</dd>" in page and "<dt>Rows</dt><dd>60</dd>" in page
    write_report(tmp_path / "report.html", fitted(tmp_path / "people.csv", 60))
    assert "A sample." not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_arrays_say_so_too(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(N, 3)) + 2 * (np.arange(N) < 30)[:, None])
    np.save(tmp_path / "s.npy", S)
    model = fitted(tmp_path / "x.npy", 40, label=str(tmp_path / "s.npy"), id_column=None)
    assert model.record.sampling == Sampling(RowCounts(60, 20, 40), "row number", 0, 40, "40 rows were asked for.")


def test_reading_is_shown(tmp_path: Path) -> None:
    shown: list[StageProgress] = []
    options = ReadOptions(label="known", id_column="id")
    fit_files(write_table(tmp_path / "people.csv"), options, FitOptions(**QUICK), max_rows=40, on_progress=shown.append)
    assert [each.detail for each in shown if each.stage == "reading"] == ["", "60 rows"]


def sizes(monkeypatch: pytest.MonkeyPatch, memory: int | None, width: int, time_limit: float | None = None) -> Any:
    """The number of rows that is chosen for a table of so many columns."""
    from pucl.data.own import open_rows

    monkeypatch.setattr(sampling, "memory_of_machine", lambda: memory)
    return sampling.size_of_sample(open_rows(np.zeros((300, width)), kind="table"), None, time_limit)


def test_the_number_of_rows_by_memory_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sizes(monkeypatch, 16 << 30, 20)
    assert plain.rows == 200_000 and plain.reason.startswith("200,000 rows are the default")
    assert sizes(monkeypatch, None, 5_000) == plain
    narrow = sizes(monkeypatch, 1 << 30, 50)
    assert narrow.rows == (1 << 29) // (16 * 8 * 50) and "in half of 1 GB of memory" in narrow.reason
    assert sizes(monkeypatch, 1 << 30, 5_000).rows == 10_000
    hurried = sizes(monkeypatch, 16 << 30, 200, time_limit=30)
    assert hurried.rows == 30_000 and "there is time for in 30 seconds" in hurried.reason
    assert (sampling.memory_of_machine() or 1 << 40) > 1 << 20


@pytest.mark.slow
def test_the_interval_of_a_sample_holds_for_all_rows(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng, n, held = np.random.default_rng(5), 30_000, 0
    positive = rng.random(n) < 0.1
    x = rng.normal(size=(n, 3)) + 3 * positive[:, None]
    known = positive & (rng.random(n) < 0.1)
    columns = {f"x{j}": x[:, j] for j in range(3)}
    pq.write_table(pa.table({"id": np.arange(n), **columns, "known": known}), tmp_path / "t.parquet")
    reading = ReadOptions(label="known", id_column="id")
    for seed in range(3):
        estimate = estimate_prior_of_files(
            tmp_path / "t.parquet", reading, model=None, method="auto", max_rows=3_000, seed=seed
        )
        assert not estimate.is_bound
        held += estimate.low <= positive[~known].mean() <= estimate.high
    assert held >= 2, "of three intervals of 90 %"
