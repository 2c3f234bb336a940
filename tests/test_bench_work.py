"""Cells that are run: every readout, teachers, raw rows as other embeddings, skips and failures."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pucl.bench.grid.cells import Baseline, Cell, Pipeline
from pucl.bench.pages.tables import make_table
from pucl.bench.results.line import ResultLine
from pucl.bench.results.revisions import revisions_of
from pucl.bench.results.store import read_results
from pucl.bench.run import exam as exams
from pucl.bench.run import stages, work
from pucl.bench.run.encoding import EncoderStore
from pucl.bench.run.exam import pose
from pucl.bench.run.runner import plan, sweep
from pucl.bench.run.stages import Embedded, fit_readout
from pucl.bench.run.work import Bench
from pucl.data import load
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder, Standardise, as_rows
from pucl.encoders.plain import raw_encoder
from pucl.errors import RunError
from pucl.heads.scaling import Scaling
from pucl.numerics.logistic import fit_logistic
from pucl.pseudo_labels import pseudo_label

from bench_examples import SMALL, baseline, cells_in, cells_of, cells_with, done, line_of, run_unit

WITHOUT_PRIOR = {"head": "baseline", "head_options": {"method": "nnpu_mixup"}}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, ResultLine]]:
    """One encoder by puNCE with an estimated prior, every kind of readout on it."""
    folder = tmp_path_factory.mktemp("encoders")
    tuned = {"quick": {"labeller": "kernel_cvir", "head": "finetune", "head_options": {"epochs": 1, "view": "shift"}}}
    true = {"true": {"labeller": "truth", "head": "finetune", "head_options": {"epochs": 1, "renew": False}}}
    strong = {"view": "shift", "strong_view": "small_image", "strong_view_options": {"noise": 0.1}}
    moving = {"moving": {"labeller": "kernel_cvir", "head": "momentum", "head_options": {"epochs": 1, **strong}}}
    readouts = ["pupl", "kernel_cvir", "nnpu", "knn", "ceiling", "quick", "true", "moving"]
    block = {**SMALL["block"][0], "objectives": ["punce"], "prior": "bbe", "readouts": readouts}
    unit = cells_in({**SMALL, "readout": {**tuned, **true, **moving}, "block": [block]})
    lines = [done(outcome) for outcome in run_unit(unit, folder)]
    return folder, {cell.readout.name: line for cell, line in zip(unit, lines, strict=True)}


@pytest.mark.slow
def test_every_readout_is_measured(measured: tuple[Path, dict[str, ResultLine]]) -> None:
    _, lines = measured
    assert list(lines) == ["pupl", "kernel_cvir", "nnpu", "knn", "ceiling", "quick", "true", "moving"]
    metrics = {readout: line.metrics for readout, line in lines.items()}
    shared = {"accuracy", "knn", "linear_probe", "loss", "encoder_given_prior"}
    graded = {*shared, "f1", "auc"}
    assert set(metrics["knn"]) == shared and metrics["knn"]["accuracy"] == metrics["knn"]["knn"]
    assert set(metrics["ceiling"]) == graded and set(metrics["nnpu"]) == {*graded, "given_prior"}
    for readout in ("pupl", "kernel_cvir", "quick", "moving"):
        assert set(metrics[readout]) == {*graded, "pseudo_label_accuracy", "estimated_prior"}
    assert len({(m["knn"], m["linear_probe"], m["loss"]) for m in metrics.values()}) == 1  # one encoder
    assert metrics["nnpu"]["given_prior"] == pytest.approx(0.504, abs=0.01)  # the true one
    assert metrics["nnpu"]["encoder_given_prior"] != metrics["nnpu"]["given_prior"]
    assert metrics["ceiling"]["accuracy"] > metrics["pupl"]["accuracy"]
    line = lines["kernel_cvir"]
    assert line.key == line.cell.key and line.origin.commit == "here" and line.revisions == revisions_of(line.cell)
    assert isinstance(line.cell, Pipeline) and line.cell.readout.labeller == "kernel_cvir"
    assert line.encoder_seconds is not None and line.encoder_seconds > 0
    assert {"python", "torch", "pucl"} <= line.origin.versions.keys() and line.time.endswith("+00:00")
    assert ResultLine.from_dict(json.loads(json.dumps(line.to_dict()))) == line


@pytest.mark.slow
def test_a_baseline_on_embeddings_is_a_linear_classifier_of_them(
    measured: tuple[Path, dict[str, ResultLine]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lines = measured
    quick = {"epochs": 5, "batch_size": 128, "learning_rate": 0.02}
    methods: dict[str, dict[str, Any]] = {
        "naive_head": {"head": "baseline", "head_options": {"method": "naive"}},
        "mixup": {"head": "baseline", "head_options": {"method": "nnpu_mixup", **quick}, "prior": "oracle"},
        "variational": {"head": "baseline", "head_options": {"method": "vpu", "weight": 0.03, **quick}},
        "mixed": {"head": "baseline", "head_options": {"method": "p3mix_c", **quick}},
    }
    block = {**SMALL["block"][0], "objectives": ["punce"], "prior": "bbe", "readouts": list(methods)}
    unit = cells_in({**SMALL, "readout": methods, "block": [block]})
    scores: list[torch.Tensor] = []
    grade = exams.Exam.grade

    def kept(exam: exams.Exam, logits: torch.Tensor) -> exams.Metrics:
        scores.append(logits)
        return grade(exam, logits)

    monkeypatch.setattr(exams.Exam, "grade", kept)
    found = {cell.readout.name: done(out) for cell, out in zip(unit, run_unit(unit, folder), strict=True)}
    shared = {"accuracy", "knn", "linear_probe", "loss", "encoder_given_prior", "f1", "auc"}
    assert set(found["mixup"].metrics) == {*shared, "given_prior"}
    assert all(set(found[name].metrics) == shared for name in ("naive_head", "variational", "mixed"))
    assert all(line.metrics["linear_probe"] == lines["knn"].metrics["linear_probe"] for line in found.values())
    assert found["mixup"].accuracy > found["naive_head"].accuracy, "which calls most rows negative"
    assert {"baselines/vpu", "stage/baselines"} <= found["variational"].revisions.keys()

    observed, exam = pose(unit[0].place)
    encoder = EncoderStore(folder, "cpu").encoder(unit[0].encoder_cell, observed, exam).encoder
    scaling = Standardise.of(z := embed(encoder, observed.x))
    seen = torch.from_numpy(observed.s).float()
    layer = fit_logistic(scaling(z), seen, torch.ones_like(seen), l2=0.01)
    expected = layer(scaling(embed(encoder, exam.test_rows))).flatten()
    assert torch.allclose(scores[0], expected, atol=1e-3), "logistic regression of P against U"


@pytest.mark.slow
def test_pupl_to_the_letter_takes_hard_labels_and_moves_nothing(tmp_path: Path) -> None:
    cells = cells_of(readouts=["pupl", "pupl_hard", "pupl_released"])
    soft, hard, released = (done(outcome) for outcome in run_unit(cells, tmp_path))
    label = "pseudo_label_accuracy"
    assert soft.metrics[label] == hard.metrics[label] != released.metrics[label]
    observed, exam = pose(cells[0].place)
    trained = EncoderStore(tmp_path, "cpu").encoder(cells[0].encoder_cell, observed, exam)
    rows = Embedded(trained.encoder, observed, "cpu")
    pseudo = rows.pseudo(cells[1].readout, None)
    scaling = Scaling.of(rows.z)
    layer = fit_logistic(scaling(rows.z), pseudo.labels, torch.ones(len(rows.z)), l2=1e-3)
    scored = fit_readout(cells[1].readout, rows, exam).score
    assert scored is not None
    expected = layer(scaling(rows.z)).squeeze(1)
    assert torch.allclose(scored(observed.x), expected, atol=1e-4)


def test_on_a_collapsed_encoder_every_row_is_called_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "embed_rows", lambda _encoder, x, **_: torch.ones(len(x), 4))
    cells = cells_of(readouts=["pupl", "auto", "ceiling"], prior="oracle")
    pupl, auto, ceiling = (done(outcome) for outcome in run_unit(cells, tmp_path))
    for line in (pupl, auto):
        assert line.metrics["auc"] == 50 and line.accuracy == pytest.approx(50, abs=3)  # odd digits
        assert any("every row is called positive" in text for text in line.warnings)
    assert not ceiling.warnings and ceiling.metrics["auc"] == 50


@pytest.mark.slow
def test_an_encoder_is_trained_once_and_checked(
    measured: tuple[Path, dict[str, ResultLine]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lines = measured
    assert len(list(folder.glob("*/encoder.json"))) == 2  # and the one by ssCL that the prior was estimated on

    def refuse(*_: Any, **__: Any) -> Any:
        raise RunError("trained again")

    monkeypatch.setattr("pucl.bench.run.encoding.prepare", refuse)
    cell = lines["pupl"].cell
    (outcome,) = run_unit([cell], folder)
    assert done(outcome).metrics == lines["pupl"].metrics
    (place,) = folder.glob("digits-punce-*/encoder.json")
    about = json.loads(place.read_text())
    kept = place.read_text()
    changes: tuple[dict[str, Any], ...] = (
        {"config": {**about["extra"]["config"], "seed": 9}},
        {"revisions": {"losses/punce": 0}},
        {"made": {}},
    )
    for change in changes:
        place.write_text(json.dumps({**about, "extra": {**about["extra"], **change}}))
        assert run_unit([cell], folder)[0].failed == "trained again"
    place.write_text(kept)
    (forced,) = list(Bench(folder, "cpu", "here", anew=True).run([cell]))
    assert forced.failed == "trained again"


@pytest.mark.slow
def test_cells_that_cannot_be_run_are_skipped_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "nowhere"))
    cells: list[Cell] = [*cells_of(objectives=["punce"]), *cells_of(tasks=["cifar1"]), *cells_of(tasks=["gaussians"]),
             baseline("nnpu"), *cells_in({**SMALL, "readout": {"nnpu_mixup_head": WITHOUT_PRIOR}, "block": [
                 {**SMALL["block"][0], "readouts": ["nnpu_mixup_head"]}]})]  # fmt: skip
    reasons = [reason for _, reason in plan(cells, []).skipped]
    assert len(reasons) == 5
    for reason, words in zip(
        reasons,
        ("punce: needs a prior, but the grid gives none: set prior to 'oracle' or the name of an estimator",
         "cifar10: data_batch_1 is missing", "small_cnn: takes image data; gaussians has table data",
         "nnpu: needs a prior, but the grid gives none: set prior to 'oracle' or the name of an estimator",
         "nnpu_mixup_head: prior must be a number strictly between 0 and 1"),
        strict=True,
    ):  # fmt: skip
        assert words in reason
    # What is only known once the data are loaded: nobody knows the prior of STL-10.
    data = replace(load("digits", seed=0), x_unlabelled=load("digits", seed=0).x_test)
    monkeypatch.setattr(exams, "load", lambda *_, **__: data)
    unit = cells_of(objectives=["punce"], prior="oracle", setting="single-set")
    (outcome,) = run_unit(unit, tmp_path)
    assert outcome.skipped == "the true prior inside U of digits is unknown"
    (outcome,) = run_unit(cells_of(setting="single-set", readouts=["ceiling"]), tmp_path)
    assert done(outcome).accuracy > 60


def test_a_failed_cell_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(cell: Baseline, *rest: Any) -> Any:
        if cell.place.seed == 0:
            raise ZeroDivisionError("on\npurpose")
        return stages.fit_method(cell, *rest)

    monkeypatch.setattr(work, "fit_method", fit)
    said: list[str] = []
    cells: list[Cell] = [baseline(), baseline(seeds=[1])]
    summary = sweep(cells, tmp_path / "r.jsonl", device="cpu", on_progress=said.append)
    assert (summary.ran, len(summary.failed)) == (1, 1) and "1 ran in " in said[3]
    assert re.fullmatch(r"failed: .*naive \(raw\): ZeroDivisionError: on purpose \(test_bench_work.py:\d+\)", said[-1])
    assert [line.cell.place.seed for line in read_results(tmp_path / "r.jsonl")] == [1]
    monkeypatch.undo()
    summary = sweep(cells, tmp_path / "r.jsonl", device="cpu", on_progress=said.append)
    assert (summary.ran, summary.there, summary.failed) == (1, 1, [])


def test_supervised_is_naive_with_the_truth(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "cpu", "abc")
    cells = [baseline("supervised"), baseline("naive")]
    (given_truth,), (blind,) = (list(bench.run([cell])) for cell in cells)
    assert cells[0].is_reference and not cells[1].is_reference
    assert done(given_truth).accuracy > done(blind).accuracy + 20
    line = line_of(replace(cells[0], place=replace(cells[0].place, task="fmnist1", n_labelled=1000)))
    rows = {row.label.method: row for row in make_table("pu-benchmark-1", [line]).rows}
    row = rows["supervised"]
    assert row.reference and not row.entries["fmnist1", 1000].best


@pytest.mark.slow
def test_raw_rows_as_other_embeddings_of_a_hasty_encoder_make_labels_better(tmp_path: Path) -> None:
    plain, more = (done(outcome).metrics for outcome in run_unit(cells_with("plain", "with_raw"), tmp_path))
    assert plain["knn"] == more["knn"] and plain["loss"] == more["loss"]  # one encoder
    assert more["pseudo_label_accuracy"] > max(95, plain["pseudo_label_accuracy"] + 2)
    assert more["estimated_prior"] == pytest.approx(0.504, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("withheld", [0, 0.5])
def test_the_labeller_sees_the_observed_raw_rows(withheld: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, with_raw = (cell.readout for cell in cells_with("plain", "with_raw"))
    observed, exam = pose(cells_of()[0].place)
    rows = as_rows(observed.x, owner="test")
    poor = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.AvgPool1d(16))  # how bright four stripes are
    embedded = Embedded(Encoder(Standardise.of(rows), poor), observed, "cpu", withheld=withheld)
    calls: list[dict[str, Any]] = []

    def label(z: Any, s: Any, **how: Any) -> Any:
        calls.append({"z": z, **how})
        return pseudo_label(z, s, **how)

    monkeypatch.setattr(stages, "pseudo_label", label)
    first, again, other = (embedded.pseudo(readout, None) for readout in (with_raw, with_raw, plain))
    assert len(calls) == 2 and again is first and not torch.equal(other.probability, first.probability)
    assert "other_embeddings" not in calls[1] and all(
        (call["seen_by_encoder"] is None) == (withheld == 0) for call in calls
    )
    (raw,) = calls[0]["other_embeddings"]
    assert raw.shape == (len(observed.s), 65) and calls[0]["z"] is embedded.z
    assert torch.equal(raw, embed(raw_encoder(rows), rows))
    by_hand = pseudo_label(
        embedded.z,
        observed.s,
        seen_by_encoder=embedded.seen_by_encoder,
        seed=observed.seed,
        other_embeddings=[raw],
        repeats=1,
    )
    assert torch.equal(first.probability, by_hand.probability)
    known, truth = exam.training_truth()
    right = [((pseudo.labels.numpy()[known] == truth)[~observed.s[known]]).mean() for pseudo in (other, first)]
    assert right[1] > right[0] + 0.1, "stripes show little of the digits"
