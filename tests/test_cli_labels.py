"""The command where people choose how many rows are labelled, or ask for a verdict."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pucl.models.folder import load_model, read_card, save_model
from pucl.priors import PriorEstimate
from pucl.selection import Verdict, ranking_scores

from conftest import Command

FIT = (
    "fit", "people.csv", "--label", "known", "--id-column", "id", "--encoder", "raw", "--head", "linear",
    "--labeller", "pupl", "--prior", "0.3", "--out", "model",
)  # fmt: skip
PREDICT = ("predict", "model", "people.csv", "--out", "s.csv")


@pytest.fixture
def model(pucl: Command) -> str:
    assert pucl(*FIT).code == 0
    return "model"


def know_a_bound_only(folder: str) -> None:
    """Rewrite a model as one whose share of positives is only known to be at most 0.46."""
    model = load_model(folder)
    assert model.evidence is not None
    record = replace(
        model.record,
        prior=PriorEstimate.bound(0.46, "cvir"),
        metrics=ranking_scores(model.evidence.held_logit, model.evidence.held_labelled),
        score_ranges={"precision": (0.0, 0.55)},
    )
    save_model(folder, replace(model, record=record))


@pytest.mark.usefixtures("model")
def test_labels_by_number_recall_and_precision(pucl: Command) -> None:
    top = pucl(*PREDICT, "--top", "7")
    assert top == (0, "7 of 60 rows labelled positive (the 7 best)\nScores: s.csv\n", "")
    assert Path("s.csv").read_text(encoding="utf-8").count(",1,") == 7
    recall = json.loads(pucl(*PREDICT, "--recall", "0.8", "--json").out)
    assert recall["rule"] == "above the threshold that finds 80% of hidden positives" and recall["positive"] >= 16
    assert "where 70% should be positive" in pucl(*PREDICT, "--precision", "0.7").out
    assert "(probability above 0.25)" in pucl(*PREDICT, "--threshold", "0.25").out


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--top", "0"), "pucl predict: --top must be a whole number ≥ 1; got 0"),
        (("--top", "61"), "pucl predict: --top must be at most the number of rows, 60; got 61"),
        (("--top", "many"), "pucl predict: --top must be a whole number; got 'many'"),
        (("--top", "5", "--threshold", "0.5"), "--threshold and --top must be given one at a time"),
        (("--top", "5", "--recall", "0.5"), "--top and --recall must be given one at a time"),
        (("--recall", "0.5", "--precision", "0.5"), "--recall and --precision must be given one at a time"),
        (("--recall", "2"), "--recall must be a number strictly between 0 and 1; got 2"),
    ],
)
def test_what_people_get_wrong(pucl: Command, words: tuple[str, ...], message: str) -> None:
    run = pucl(*PREDICT, *words)
    assert run.code == 2 and run.out == "" and run.err.count("\n") == 1 and message in run.err
    assert not Path("s.csv").exists()


def test_a_bound_is_said_and_not_turned_into_probabilities(pucl: Command, model: str) -> None:
    know_a_bound_only(model)
    shown = pucl("inspect", model).out
    assert "at most 46 %, it could be far less; nothing in this data can tell; pass --prior if you know it." in shown
    assert "precision at most 0.55" in shown and "Estimated from hidden positives: recall " in shown
    assert pucl(*PREDICT).out.startswith("2") and "(above the model's own threshold)" in pucl(*PREDICT).out
    assert Path("s.csv").read_text(encoding="utf-8").startswith("id,score,label\n")
    Path("s.csv").unlink()
    refused = pucl(*PREDICT, "--precision", "0.9")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "--precision must be left out where the share of positives is only bounded (at most 46%)" in refused.err
    assert pucl(*PREDICT, "--threshold", "0.5").code == 2 and not Path("s.csv").exists()
    assert pucl(*PREDICT, "--top", "3").code == 0


def test_the_verdict_is_the_last_line_of_the_description(pucl: Command) -> None:
    said = pucl(*FIT).out
    verdict = read_card(Path("model")).record.verdict
    assert verdict is not None and f"\nVerdict: {verdict}.\n\nNext: " in said


@pytest.mark.parametrize(
    ("word", "required", "code"),
    [("useful", "useful", 0), ("weak", "useful", 3), ("weak", "weak", 0), ("do not use", "weak", 3)],
)
def test_a_pipeline_can_ask_for_a_verdict(
    pucl: Command, monkeypatch: pytest.MonkeyPatch, word: str, required: str, code: int
) -> None:
    found = Verdict(word, "because of this")  # type: ignore[arg-type]
    monkeypatch.setattr("pucl.fitting.recording.verdict", lambda *_, **__: found)
    for words in ((), ("--json",)):
        run = pucl(*FIT, "--require", required, "--overwrite", *words)
        assert run.code == code and read_card(Path("model")).record.verdict == found
        told = f"pucl fit: --require {required} is not met; the model is saved; verdict: {found}\n" if code else ""
        assert run.err == told and "because of this" in run.out


def test_noise_is_not_useful(pucl: Command) -> None:
    """A whole fit to labels that have nothing to do with the columns."""
    rng = np.random.default_rng(0)
    rows = [["a", "b", "c", "known"], *([*rng.normal(size=2), rng.choice(["x", "y"]), int(i < 40)] for i in range(200))]
    Path("noise.csv").write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
    fit = ("fit", "noise.csv", "--label", "known", "--time-limit", "0.001", "--out", "model")
    run = pucl(*fit, "--require", "useful")
    assert run.code == 3 and run.err.count("\n") == 1 and "\nVerdict: do not use: a hidden positive ranks" in run.out
    assert run.err.startswith("pucl fit: --require useful is not met; the model is saved; verdict: do not use: ")
    assert Path("model/model.json").exists() and pucl(*fit, "--overwrite").code == 0


def test_an_unknown_verdict_is_refused_before_the_fit(pucl: Command) -> None:
    run = pucl(*FIT, "--require", "perfect")
    assert run.code == 2 and "--require must be useful or weak; got 'perfect'" in run.err and not Path("model").exists()
