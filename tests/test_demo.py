"""The demo end to end, on seeds a user would try."""

import json
from pathlib import Path

import numpy as np
import pytest

from pucl.bench.demo import Demo, run_demo
from pucl.console import images_as_text, scores_table
from pucl.metrics import Scores


def mean_accuracy(demos: dict[int, Demo], name: str) -> float:
    method = next(key for key in demos[0].scores if key.startswith(name))
    return float(np.mean([demo.scores[method].accuracy for demo in demos.values()]))


def test_the_demo_on_two_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, since the runs take most of a minute each and tests may be shared out among processes."""
    demos = {0: run_demo(seed=0, out=tmp_path / "0", on_step=lambda *_: None)}
    monkeypatch.setattr("pucl.bench.demo._picture", lambda *_: None)  # one will do
    demos[1] = run_demo(seed=1, out=tmp_path / "1", on_step=lambda *_: None)
    pucl_beats_the_simple_methods_and_nears_the_ceiling(demos)
    the_prior_is_found_without_being_told(demos)
    everything_is_saved(demos[0])


def pucl_beats_the_simple_methods_and_nears_the_ceiling(demos: dict[int, Demo]) -> None:
    ours = mean_accuracy(demos, "puCL + stacked")
    ceiling = mean_accuracy(demos, "fully supervised")
    assert ours > mean_accuracy(demos, "naive")
    assert ours > mean_accuracy(demos, "raw pixels + stacked")
    assert ours > mean_accuracy(demos, "nearest labelled centroid")
    assert ours > mean_accuracy(demos, "puCL + puPL")
    assert ours > ceiling - 0.05


def the_prior_is_found_without_being_told(demos: dict[int, Demo]) -> None:
    error = [abs(demo.prior - demo.sample.prior) for demo in demos.values()]
    assert np.mean(error) < 0.06


def everything_is_saved(demo: Demo) -> None:
    assert demo.picture is not None and demo.picture.stat().st_size > 10_000
    saved = json.loads(demo.report.read_text(encoding="utf-8"))
    assert saved["seed"] == 0 and saved["config"]["epochs"] == 60
    assert {name: score["accuracy"] for name, score in saved["test"].items()} == {
        name: score.accuracy for name, score in demo.scores.items()
    }
    assert demo.images.shape == (10, 8, 8)
    assert demo.probabilities == sorted(demo.probabilities, reverse=True)


@pytest.mark.usefixtures("one_draw")
def test_the_same_seed_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.bench.demo._picture", lambda *_: None)  # numbers are looked at here
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
        console.print(scores_table("title", {"naive": Scores(accuracy=0.4484, f1=0.1, auc=0.7)}))
    assert "44.8" in shown.get() and "70.0" in shown.get()
