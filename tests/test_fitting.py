"""What a fit picks, and why: candidates, π, raw rows against a trained encoder, memorised labels, fine-tuning."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from estimator_examples import gaussians, quick
from pucl import PUClassifier, PUEncoder
from pucl.encoders.inputs import Encoder, Standardise
from pucl.fitting.compare import Candidate, Comparison, Judged, choose
from pucl.fitting.encode import encode_raw
from pucl.fitting.fit import fit
from pucl.fitting.modes import MODES
from pucl.fitting.plan import FitOptions, plan_fit, plan_pretraining
from pucl.fitting.reasons import reasons_of
from pucl.models.schema import Schema
from pucl.training.pretraining import Pretrained


@pytest.mark.parametrize(
    ("shape", "encoder"),
    [
        ((1, 28, 28), "small_cnn"),
        ((3, 63, 80), "small_cnn"),
        ((3, 64, 64), "thumbnail_cnn"),
        ((1, 300, 200), "thumbnail_cnn"),
    ],
)
def test_on_a_cpu_large_images_are_encoded_as_thumbnails(shape: tuple[int, ...], encoder: str) -> None:
    plan = plan_pretraining(FitOptions(), Schema("image", shape), 1000, 100, torch.device("cpu"))
    assert plan is not None and plan.encoder == encoder and plan.reasons[0] == f"Encoder {encoder}: fast on a CPU."


@pytest.mark.slow
def test_defaults_learn_and_say_what_they_picked(caplog: pytest.LogCaptureFixture) -> None:
    x, s, y = gaussians(600)
    model = PUClassifier(random_state=0, verbose=True).fit(x, s)
    assert (model.predict(x) == y).mean() > 0.95
    assert model.choices_["encoder"] == "raw" and "rarely pays on tables" in model.reasons_[0]
    assert "Model: encoder raw" in caplog.text
    truth = y[s == 0].mean()
    low, high = model.prior_interval_
    assert abs(model.prior_ - truth) < 0.07 and low <= model.prior_ <= high
    assert model.pseudo_labels_.labels[s == 1].all() and model.history_ == []
    estimated = model.scores_["proxy_accuracy"]
    assert 0.8 < estimated["value"] < (model.predict(x) == y)[s == 0].mean() + 4 * estimated["error"]


@pytest.mark.slow
def test_no_pretraining_where_it_does_not_pay() -> None:
    """On a plain table the encoder is trained, compared by hidden positives, and left."""
    x, s, y = gaussians(800, dim=8)
    model = PUClassifier(random_state=0, epochs=3).fit(x, s)
    names = [one.name for one in model.model_.record.candidates]
    assert any(name.startswith("trained") for name in names) and model.choices_["encoder"] == "raw"
    assert (model.predict(x) == y).mean() > 0.95
    check_sentence_of_comparison(model)


def check_sentence_of_comparison(model: PUClassifier) -> None:
    """The sentence on the trained encoder has the figures of the table, on the rows that both were judged on."""
    candidates = model.model_.record.candidates
    trained = next(one for one in candidates if one.name.startswith("trained"))
    assert trained.difference is not None and trained.hidden is not None and candidates[0].hidden is not None
    assert trained.hidden < candidates[0].hidden, "the encoder is judged by the labels hidden from it"
    (sentence,) = (reason for reason in model.reasons_ if f"rather than {trained.name}" in reason)
    assert f"{candidates[0].name} rather than" in sentence and f"the same {trained.hidden:,} hidden" in sentence
    ours, theirs = map(float, re.findall(r"AUC (\d\.\d+) against (\d\.\d+)", sentence)[0])
    assert theirs - ours == pytest.approx(trained.difference.value, abs=0.0011)
    assert ("The other is higher" in sentence) == (trained.difference.value > 0)
    assert not any("did not rank" in reason for reason in model.reasons_)


def test_a_candidate_within_noise_is_said_to_be_higher_and_not_taken() -> None:
    labelled = torch.arange(400) < 100
    one, two = np.random.default_rng(4).standard_normal((2, 400))
    x = torch.zeros(400, 1)
    plan = plan_fit(x, labelled.int().numpy(), Schema("vector", (1,)), FitOptions(encoder="raw"), torch.device("cpu"))
    low = Judged(Candidate("raw", x, "cvir", "linear", (0,)), one + labelled.numpy())
    high = Judged(Candidate("trained", x, "stacked", "linear", (0,)), one + two / 3 + 1.3 * labelled.numpy())
    part = high.logits.copy()
    part[::2] = np.nan
    comparison = Comparison((low, replace(high, logits=part)), 0)
    sentence = reasons_of(plan, encode_raw(x, torch.device("cpu")), comparison)[-1]
    assert "on the same 50 hidden positives and 150 unlabelled rows. The other is higher by 0.0" in sentence
    assert sentence.endswith("not more than the 2 standard errors that it needs to replace the simpler default.")


class Memorising(torch.nn.Module):
    """Puts the rows it was trained with apart from all others; it knows them by their last number."""

    def __init__(self, memorised: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("memorised", memorised)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = torch.isin(x[:, -1].round().long(), self.get_buffer("memorised"))
        return torch.cat([x[:, :4] - 1, 6 * known[:, None].float()], dim=1)


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0, 1])
def test_labelled_rows_an_encoder_has_memorised_do_not_stand_for_the_positives(
    strength: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, s, y = gaussians(800, dim=4)
    numbered = np.concatenate([x, np.arange(len(x))[:, None]], axis=1).astype(np.float32)

    def pretend(rows: torch.Tensor, shown: torch.Tensor, **_how: Any) -> Pretrained:
        network = Memorising(rows[shown, -1].long() if strength else torch.empty(0, dtype=torch.long))
        plain = Standardise(torch.zeros(5), torch.ones(5))
        return Pretrained(Encoder(plain, network), [], [], torch.zeros(len(rows), dtype=torch.bool))

    monkeypatch.setattr("pucl.fitting.encode.pretrain", pretend)
    found = fit(torch.from_numpy(numbered), s, Schema("vector", (5,)), FitOptions(encoder="mlp"), device="cpu")
    record = found.model.record
    assert found.pseudo.prior == pytest.approx(y[s == 0].mean(), abs=0.05)
    assert (found.pseudo.labels.numpy() == y).mean() > 0.9
    assert any("memorised" in line for line in record.diagnostics) == bool(strength)
    assert record.metrics is not None
    assert record.metrics.recall.value > 0.8, "of hidden rows, by labels that others of them gave"
    if strength:
        monkeypatch.setattr("pucl.fitting.encode.memorised", lambda *_rows, **_how: (0.5, False))
        blind = fit(torch.from_numpy(numbered), s, Schema("vector", (5,)), FitOptions(encoder="mlp"), device="cpu")
        assert blind.pseudo.prior < found.pseudo.prior - 0.1
        assert blind.model.record.metrics is not None
        assert blind.model.record.metrics.recall.value < record.metrics.recall.value - 0.1


def test_a_later_candidate_must_be_better_by_more_than_noise() -> None:
    labelled = np.arange(400) < 100

    def judged(gap: float, encoder: str = "raw") -> Judged:
        logits = np.random.default_rng(round(100 * gap)).standard_normal(400) + gap * labelled
        return Judged(Candidate(encoder, torch.zeros(400, 1), "cvir", "linear", (0,)), logits)

    assert choose([judged(1.0), judged(1.05)], labelled) == 0, "within noise the first stays"
    assert choose([judged(1.0), judged(3.0)], labelled) == 1
    gains = [
        choose([judged(1.0), judged(gap / 50, encoder)], labelled)
        for encoder in ("raw", "trained")
        for gap in range(50, 100)
    ]
    assert 0 < sum(gains[50:]) < sum(gains[:50]), "another embedding must be better by more"
    part = judged(3.0)
    part.logits[:390] = np.nan  # not one labelled row in common
    assert choose([judged(1.0), part], labelled) == 0


@pytest.mark.slow
def test_a_kernel_where_a_plane_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    corner = rng.integers(4, size=600)
    y = corner < 2
    x = np.array([[3.0, 3], [-3, -3], [3, -3], [-3, 3]])[corner] + rng.standard_normal((600, 2))
    s = (y & (rng.random(600) < 0.4)).astype(int)
    model = PUClassifier(encoder="raw", random_state=0).fit(x, s)
    assert model.choices_["head"] == "kernel" and (model.predict(x) == y).mean() > 0.95


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_near_rows_where_classes_are_many_small_clusters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cluster = np.arange(720) % 60
    y = cluster < 30
    x = (2 * rng.standard_normal((60, 20)))[cluster] + rng.standard_normal((720, 20))
    s = (y & (rng.random(720) < 0.4)).astype(int)
    model = PUClassifier(encoder="raw", random_state=0).fit(x, s)
    assert model.choices_["head"] == "knn" and (model.predict(x) == y).mean() > 0.95
    model.save(tmp_path / "model")
    assert np.array_equal(PUClassifier.load(tmp_path / "model").predict_proba(x), model.predict_proba(x))


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_fine_tuned_model_keeps_its_own_encoder() -> None:
    digits = load_digits()
    images, y = (digits.images[:500] * 15).astype(np.uint8), digits.target[:500] % 2 == 1
    s = (y & (np.arange(500) % 3 == 0)).astype(int)
    plain, tuned = (quick(encoder="small_cnn", epochs=2, fine_tune=tune).fit(images, s) for tune in (False, True))
    names = [one.name for one in tuned.model_.record.candidates]
    assert [name.partition(", fine-tuned on ")[2].partition(" +")[0] for name in names[1:]] == list(MODES)
    assert tuned.choices_["fine_tuned"] in MODES, "two epochs of contrast leave much to learn"
    assert not np.allclose(tuned.transform(images), plain.transform(images), atol=0.01)
    assert (tuned.predict(images) == y).mean() > (plain.predict(images) == y).mean()
    raw = quick(fine_tune=True).fit(images, s)
    assert raw.choices_["fine_tuned"] is None and "No fine-tuning" in raw.reasons_[-1]


@pytest.mark.slow
def test_very_many_columns_are_seen_along_their_axes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 6, 200)
    positive = group < 2
    x = (rng.normal(size=(6, 1100))[group] + rng.normal(size=(200, 1100))).astype(np.float32)
    s = positive & (rng.random(200) < 0.3)
    model = PUClassifier(random_state=0).fit(x, s)
    assert model.choices_["encoder"] == "pca"
    assert any("512 principal axes" in reason for reason in model.reasons_)
    assert roc_auc_score(positive[~s], model.decision_function(x)[~s]) > 0.999
    assert model.prior_is_bound_ and model.prior_ >= positive[~s].mean()  # with 22 labelled rows
    model.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))
    assert PUEncoder(encoder="raw").fit(x, s).transform(x).shape == (200, 513)


def test_axes_can_be_asked_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 5))
    x[:40] += 3
    s = np.arange(80) < 15
    encoder = PUEncoder(encoder="pca").fit(x, s)
    assert encoder.choices_ == {"encoder": "pca"} and encoder.transform(x).shape == (80, 6)
    model = PUClassifier(encoder="pca", random_state=0).fit(x, s)
    assert model.choices_["encoder"] == "pca"
    assert any("as requested" in reason for reason in model.reasons_)
    assert (model.predict(x) == (np.arange(80) < 40)).mean() > 0.9


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_prior_given_named_or_estimated() -> None:
    x, s, _ = gaussians(600)
    given = quick(prior=0.3).fit(x, s)
    assert given.prior_ == 0.3 and given.prior_interval_ == (0.3, 0.3)
    unlabelled = torch.from_numpy(s == 0)
    assert float(given.pseudo_labels_.labels[unlabelled].float().mean()) == pytest.approx(0.3, abs=0.005)
    for prior in (0.15, 0.3, 0.6):
        assert quick(prior=prior).fit(x, s).predict(x)[s == 0].mean() == pytest.approx(prior, abs=0.005)
    named = quick(prior="dedpul").fit(x, s)
    assert named.model_.record.prior.method == "dedpul"
    contrast = quick(encoder="mlp", epochs=1, prior=0.3).fit(x, s)
    assert contrast.choices_["objective"] == "punce"
    assert quick(encoder="mlp", epochs=1).fit(x, s).choices_["objective"] == "pucl"
