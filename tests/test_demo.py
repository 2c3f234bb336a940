"""The demo end to end, on seeds a user would try."""

import json
from pathlib import Path

import numpy as np
import pytest

from pucl.bench.demo import Demo, run_demo
from pucl.cli.console import images_as_text, scores_table
from pucl.metrics import Evaluation


def accuracy(demo: Demo, name: str) -> float:
    return next(scores.accuracy for key, scores in demo.scores.items() if key.startswith(name))


@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    """One test, since the run takes a minute and tests may be shared out among processes."""
    demo = run_demo(seed=0, out=tmp_path, on_step=lambda *_: None)
    pucl_beats_the_simple_methods_and_nears_the_ceiling(demo)
    assert demo.prior == pytest.approx(demo.sample.prior, abs=0.06), "found without being told"
    everything_is_saved(demo)


def pucl_beats_the_simple_methods_and_nears_the_ceiling(demo: Demo) -> None:
    ours = accuracy(demo, "puCL + stacked")
    for simple in ("naive", "raw pixels + stacked", "nearest labelled centroid", "puCL + puPL"):
        assert ours > accuracy(demo, simple)
    assert ours > accuracy(demo, "fully supervised") - 0.05


def everything_is_saved(demo: Demo) -> None:
    assert demo.picture is not None and demo.picture.stat().st_size > 10_000
    saved = json.loads(demo.report.read_text(encoding="utf-8"))
    assert saved["seed"] == 0 and saved["config"]["epochs"] == 60
    assert {name: score["accuracy"] for name, score in saved["test"].items()} == {
        name: score.accuracy for name, score in demo.scores.items()
    }
    assert demo.images.shape == (10, 8, 8)
    assert demo.probabilities == sorted(demo.probabilities, reverse=True)


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_the_same_seed_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.bench.demo.embedding_picture", lambda *_, **__: None)  # numbers are looked at here
    steps: list[float] = []
    first, again = (
        run_demo(seed=3, out=tmp_path, epochs=2, on_step=lambda _, done: steps.append(done)) for _ in range(2)
    )
    assert first.scores == again.scores and first.probabilities == again.probabilities
    assert np.array_equal(first.images, again.images)
    half = steps[: len(steps) // 2]
    assert half == sorted(half) and half[0] == 0 and half[-1] == 1


def test_images_as_text_draws_both_halves() -> None:
    image = np.zeros((1, 4, 3), dtype=np.uint8)
    image[0, 0, 0] = image[0, 1, 1] = image[0, 2, 2] = image[0, 3, 2] = 255
    assert images_as_text(image) == "▀▄\n  █"


def test_scores_are_shown_in_percent() -> None:
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as shown:
        console.print(scores_table("title", {"naive": Evaluation(accuracy=0.4484, f1=0.1, auc=0.7)}))
    assert "44.8" in shown.get() and "70.0" in shown.get()
