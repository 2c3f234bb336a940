"""`pucl fit --negatives`: end to end on tables and image folders, and what people get wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from model_examples import write_table
from pucl.models.folder import load_model

from conftest import Command

READ = ("--label", "known", "--id-column", "id")
LINEAR = ("--encoder", "raw", "--labeller", "cvir", "--head", "linear")
HEADER = ["id", "a", "b", "known"]
LABELLED, ROWS, NEGATIVES = 40, 300, 60


@pytest.fixture
def reviewed(pucl: Command) -> Path:
    """A table of two overlapping classes with ids; the list holds the last rows, which are negative."""
    rng = np.random.default_rng(0)
    positive = np.concatenate([np.ones(LABELLED), rng.random(ROWS - LABELLED - NEGATIVES) < 0.3, np.zeros(NEGATIVES)])
    a, b = rng.normal(size=(2, ROWS))
    rows = [[f"r{i}", a[i] + 1.5 * positive[i], b[i], int(i < LABELLED)] for i in range(ROWS)]
    write_table(Path("reviewed.csv"), rows, HEADER)
    Path("negative.txt").write_text("".join(f"r{i}\n" for i in range(ROWS - NEGATIVES, ROWS)), encoding="utf-8")
    assert pucl is not None
    return Path("reviewed.csv")


@pytest.mark.slow
def test_from_a_list_of_negatives_to_a_report(pucl: Command, reviewed: Path) -> None:
    words = ("fit", str(reviewed), *READ, *LINEAR)
    fit = pucl(*words, "--negatives", "negative.txt", "--out", "model")
    assert fit.code == 0 and fit.err == ""
    assert "Data: 300 rows (table), 40 of them labelled positives and 60 confirmed negatives." in fit.out
    assert ", by adjusted_count." in fit.out and "specificity 0." in fit.out
    record = load_model("model").record
    assert (record.rows.n, record.rows.labelled, record.rows.unlabelled, record.rows.negative) == (300, 40, 200, 60)
    assert not record.prior.is_bound and record.metrics is not None and record.metrics.pn_auc is not None
    assert "--negatives negative.txt" in str(record.command)
    assert "40 of them labelled positives and 60 confirmed negatives" in pucl("inspect", "model").out
    assert pucl("report", "model").code == 0
    page = (Path("model") / "report.html").read_text(encoding="utf-8")
    assert "<strong>60 confirmed negatives</strong>" in page and "<dt>Confirmed negatives</dt>" in page
    predict = pucl("predict", "model", str(reviewed), "--id-column", "id", "--out", "scores.csv")
    assert predict.code == 0 and " of 300 rows labelled positive" in predict.out
    some = pucl(*words, "--negatives", "negative.txt", "--rows", "240", "--out", "small", "--json")
    assert json.loads(some.out)["rows"] == {"n": 240, "labelled": 40, "unlabelled": 140, "negative": 60}
    plain = pucl(*words, "--out", "plain")
    assert "at most " in plain.out and "confirmed" not in plain.out


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (
            "r299\nr7\n",
            ": --negatives must be rows that are not labelled positives; got r7, which is a labelled positive",
        ),
        ("r299\nr300\n", ", negative.txt: --negatives must be ids of the data; got 1 unknown, first 'r300'"),
        (
            "".join(f"r{i}\n" for i in range(LABELLED, ROWS)),
            ": --negatives must be few enough to leave 2 unlabelled rows or more; got 260, which leave 0",
        ),
        (
            "".join(f"r{i}\n" for i in range(LABELLED + 1, ROWS)),
            ": --negatives must be few enough to leave 2 unlabelled rows or more; got 259, which leave 1",
        ),
    ],
)
def test_negatives_that_cannot_be(pucl: Command, reviewed: Path, listed: str, message: str) -> None:
    Path("negative.txt").write_text(listed, encoding="utf-8")
    before = sorted(Path().iterdir())
    run = pucl("fit", str(reviewed), *READ, *LINEAR, "--negatives", "negative.txt", "--out", "model")
    assert (run.code, run.out) == (2, "") and run.err.startswith(f"pucl fit{message}") and run.err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


@pytest.mark.slow
def test_an_image_folder_with_negatives(pucl: Command) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, kinds in {"positive": (1,), "unlabelled": (1, 0, 0), "negative": (0,)}.items():
        Path("pictures", name).mkdir(parents=True)
        for i in range(30 * len(kinds)):
            pixels = rng.integers(0, 156, size=(8, 8)) + 100 * kinds[i % len(kinds)]
            image.fromarray(pixels.astype(np.uint8)).save(Path("pictures", name, f"{i}.png"))
    fit = pucl("fit", "pictures", "--encoder", "small_cnn", "--epochs", "3", "--out", "model")
    assert fit.code == 0 and "150 rows (image), 30 of them labelled positives and 30 confirmed negatives." in fit.out
    record = load_model("model").record
    assert (record.rows.unlabelled, record.rows.negative) == (90, 30)
    assert record.choices.encoder == "small_cnn" and abs(record.prior.value - 1 / 3) < 0.15
