"""The numbers, pictures and words of the report, each checked against a slower or an independent version."""

import base64
import io
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from pucl.models.record import EpochRecord
from pucl.report import render
from pucl.report.markup import duration, moment, percent
from pucl.report.operating import FEWEST, count_above, grid, histogram
from pucl.report.page_data import MAX_EPOCHS, series, thresholds
from pucl.report.pictures import Sheet, pack, png, shrink
from pucl.selection.scores import pu_scores
from report_examples import Fit, data_of, evidence_of, image, record_of, table, without_pillow

# Numbers


@pytest.mark.parametrize("example", [image, table])
def test_thresholds_are_those_of_pu_scores(example: Callable[[], Fit]) -> None:
    fit = example()
    record, evidence = record_of(fit), evidence_of(fit)
    at = thresholds(record, evidence)
    assert at.threshold[at.half] == 0.0 and np.all(np.diff(at.threshold) > 0)
    for i in range(0, len(at.threshold), 10):
        share = record.prior.cautious
        scores = pu_scores(evidence.held_logit, evidence.held_labelled, prior=share, threshold=at.threshold[i])
        for name in ("recall", "f1", "precision"):
            told = getattr(scores, name)
            value, error = getattr(at, name)[i], getattr(at, f"{name}_error")[i]
            if name == "precision" and scores.found.value * (~evidence.held_labelled).sum() < FEWEST - 0.5:
                assert math.isnan(value)
            else:
                assert (value, error) == pytest.approx((told.value, told.error), abs=1e-12)
    free = fit.logit[~fit.labelled].astype(np.float64)
    assert at.called.tolist() == [int((free > c).sum()) for c in at.threshold]
    known = ~np.isnan(at.positives)
    assert np.all((at.positives_low <= at.positives + 1e-9) & (at.positives <= at.positives_high + 1e-9) | ~known)


def test_thresholds_reach_the_page_unchanged() -> None:
    fit = image()
    at, told = (
        thresholds(record_of(fit), evidence_of(fit)),
        data_of(render(record_of(fit), evidence_of(fit)))["threshold"],
    )
    assert told["called"] == at.called.tolist() and (told["half"], told["best"]) == (at.half, at.best)
    assert at.f1[at.best] == at.f1.max()
    assert told["recall"] == pytest.approx(at.recall.tolist(), abs=1e-4)


def test_counts_of_thinned_scores_are_near() -> None:
    scores = np.sort(np.random.default_rng(0).normal(size=100_000))
    ranks = np.linspace(0, len(scores) - 1, 2_001).round().astype(int)
    levels = np.linspace(-5, 5, 301)
    exact = np.array([(scores > c).sum() for c in levels])
    assert np.abs(count_above(scores[ranks], len(scores), levels) - exact).max() <= 50
    assert count_above(scores, len(scores), levels).tolist() == exact.tolist()


def test_counts_with_ties_and_few_rows() -> None:
    levels = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    for scores in ([1.0], [0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [-1.0, 0.5, 0.5, 2.0]):
        exact = [sum(score > c for score in scores) for c in levels]
        assert count_above(np.array(scores), len(scores), levels).tolist() == exact


@pytest.mark.parametrize("scores", [[0.0], [-3.0] * 5, [500.0, -500.0], [1e-9, 2e-9], [4.0, 5.0]])
def test_axis_holds_one_half(scores: list[float]) -> None:
    axis = grid(np.array(scores))
    assert 0.0 in axis.tolist()
    assert 350 < len(axis) < 450 and axis[-1] - axis[0] >= 0.99 and np.abs(axis).max() < 10


def test_densities_have_area_one() -> None:
    rng = np.random.default_rng(0)
    bars = histogram(rng.normal(1, 1, 500), rng.normal(-1, 3, 2_000), -2.0, 2.0)
    for density in (bars.labelled, bars.unlabelled):
        assert (density * np.diff(bars.edges)).sum() == pytest.approx(1.0)


def test_history_is_thinned_and_keeps_its_ends() -> None:
    (loss,) = series([EpochRecord(k, loss=1 / k) for k in range(1, 3_001)])
    assert len(loss["values"]) <= MAX_EPOCHS
    assert (loss["name"], loss["epochs"][0], loss["epochs"][-1]) == ("loss", 1, 3_000)


# Pictures


def tile_of(sheet: Sheet, i: int) -> NDArray[np.uint8]:
    data = base64.b64decode(sheet.source.split(",", 1)[1])
    whole = np.asarray(Image.open(io.BytesIO(data)))
    down, across = divmod(int(sheet.tile[i]), sheet.across)
    left, top = across * sheet.pitch[0], down * sheet.pitch[1]
    return whole[top : top + sheet.size[1], left : left + sheet.size[0]]


@pytest.mark.parametrize("shape", [(7, 12, 9, 3), (30, 8, 8, 1), (1, 5, 40, 3)])
def test_png_holds_the_pictures_exactly(shape: tuple[int, ...]) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    sheet = pack(pictures, (64,), 1_000_000)
    assert sheet is not None and sheet.source.startswith("data:image/png;base64,")
    for i, picture in enumerate(pictures):
        assert np.array_equal(tile_of(sheet, i), picture[..., 0] if shape[3] == 1 else picture)


def test_png_of_smooth_pictures_is_small() -> None:
    slope = np.arange(200, dtype=np.uint8)[None, :, None] + np.zeros((200, 1, 3), np.uint8)
    assert len(png(slope)) < 1_500
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(slope)))), slope)


def test_pictures_get_smaller_then_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (100, 32, 32, 3), dtype=np.uint8)
    coarse = pack(pictures, (32, 16), 200_000)
    assert coarse is not None and coarse.size == (32, 32) and "jpeg" in coarse.source[:20]
    without_pillow(monkeypatch)
    small = pack(pictures, (32, 16), 150_000)
    assert small is not None and small.size == (16, 16) and (small.tile >= 0).all()
    fewer = pack(pictures, (32, 16), 50_000)
    assert fewer is not None and len(fewer.source) <= 50_000
    assert 30 < (fewer.tile >= 0).sum() <= 50 and fewer.tile.max() == (fewer.tile >= 0).sum() - 1
    assert pack(pictures, (32, 16), 10) is None
    assert pack(pictures[:0], (32, 16), 10_000) is None


@pytest.mark.parametrize(("old", "side"), [((32, 32), 16), ((30, 20), 7), ((96, 96), 24)])
def test_shrinking_keeps_the_mean(old: tuple[int, int], side: int) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (3, *old, 3), dtype=np.uint8)
    small = shrink(pictures, side)
    assert max(small.shape[1:3]) == side
    assert small.mean(axis=(1, 2)) == pytest.approx(pictures.mean(axis=(1, 2)), abs=1.0)
    flat = np.full((1, *old, 3), 77, np.uint8)
    assert set(shrink(flat, side).ravel().tolist()) == {77}


def test_shrinking_by_two_is_the_mean_of_four() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 1), dtype=np.uint8)
    blocks = pictures.reshape(2, 4, 2, 4, 2, 1).mean(axis=(2, 4))
    assert np.abs(shrink(pictures, 4) - blocks).max() <= 0.5 + 1e-4


# Words


def test_numbers_are_worded_for_people() -> None:
    assert [duration(s) for s in (0.42, 42, 192.4, 20_400)] == ["0.4 s", "42 s", "3 min 12 s", "5 h 40 min"]
    assert [percent(p) for p in (0.334, 0.042, 0.0004)] == ["33%", "4.2%", "0.0%"]
    assert moment("2025-01-05T09:07:00+01:00") == "5 January 2025, 09:07"
    assert moment("yesterday") == "yesterday"
