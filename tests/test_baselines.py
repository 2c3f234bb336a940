"""What every baseline must keep: it learns, twice the same, says what it is, and answers bad input in one line."""

import json
import re
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from baseline_examples import (
    SIMPLE,
    TASKS,
    accuracy,
    fit,
    naive,
    sample,
)
from pucl.baselines import Settings, fit_baseline, settings_of, why_not
from pucl.encoders import make_encoder
from pucl.errors import InputError, RunError
from pucl.registry import Entry, entries

BASELINES = entries("baselines")
PAPER = {
    "upu", "nnpu", "nnpu_mixup", "imbpu", "abspu", "pusb", "pubn", "apu", "vpu", "self_pu", "pan", "mixpul", "pulns",
    "p3mix_c", "p3mix_e", "rank_pruning", "dist_pu", "pico", "wconpu",
}  # fmt: skip

every = pytest.mark.parametrize("entry", BASELINES.values(), ids=list(BASELINES))


def test_every_method_of_the_tables_is_there() -> None:
    assert set(BASELINES) >= PAPER | {"naive", "tedn", "elkan_noto", "bagging"}
    assert {"robust_pu", "holistic_pu"} & set(BASELINES)


@pytest.mark.slow
@every
@pytest.mark.parametrize("task", TASKS)
def test_beats_naive(entry: Entry, task: str) -> None:
    if entry.name in SIMPLE:
        pytest.skip("what the others are compared with")
    if why_not(entry.name, "image" if task == "digits" else "vector", 0.5):
        pytest.skip(f"{entry.name} does not take such rows")
    data, scorer = fit(entry.name, task)
    assert accuracy(data, scorer) > naive(task) + 0.1
    assert not scorer.training and not any(parameter.requires_grad for parameter in scorer.parameters())


@pytest.mark.slow
@every
def test_the_same_seed_gives_the_same_scorer(entry: Entry) -> None:
    data = sample("digits")[0]
    quick = {"epochs": 2, "batch_size": 64, "steps": 3}
    x = torch.as_tensor(data.x_test)
    state = torch.get_rng_state()
    scorer, other = (fit(entry.name, "digits", settings=quick)[1] for _ in range(2))
    first, again = scorer(x), other(x)
    assert torch.equal(first, again)
    assert torch.equal(state, torch.get_rng_state()), "the global generator must not be touched"
    assert first.shape == (len(x),) and first.dtype == torch.float32 and first.isfinite().all()
    # A scorer treats every row alone.
    assert torch.allclose(scorer(x[:7]), first[:7], atol=1e-4)


@every
def test_says_what_it_is(entry: Entry) -> None:
    text = entry.function.__doc__ or ""
    assert re.search(r"^    Fidelity: (author code|paper only|second-hand|ours)", text, re.MULTILINE), "no fidelity"
    if entry.name in PAPER:
        assert "Presets:" in text and re.search(r"^        [^\s-]", text, re.MULTILINE), "a formula, and presets"


@pytest.mark.slow
@every
def test_settings_can_be_stored(entry: Entry) -> None:
    for task in (None, "fmnist1", "cifar1", "cifar3", "alzheimer"):
        found = settings_of(entry.name, task)
        assert isinstance(found, Settings) and json.loads(json.dumps(asdict(found)))
        if found.encoder is not None:
            assert isinstance(make_encoder(found.encoder, (3, 64, 64)), nn.Module)
    if entry.name in PAPER:
        assert settings_of(entry.name, "fmnist1").encoder == "lenet5"
        assert settings_of(entry.name, "cifar1").encoder == ("resnet18" if entry.name == "pico" else "cnn7")
        assert settings_of(entry.name, "cifar3").encoder in ("cnn13", "resnet18")


@every
def test_a_missing_prior_is_said(entry: Entry) -> None:
    _, x, s, _ = sample("digits")
    if not entry.needs_prior:
        assert why_not(entry.name, "image", None) is None
        return
    text = f"baseline '{entry.name}': prior must be a number strictly between 0 and 1 for this method; got None"
    with pytest.raises(InputError, match=re.escape(text)):
        fit_baseline(entry.name, x, s)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"name": "nnpuu"}, "unknown baseline 'nnpuu': did you mean 'nnpu'?"),
        ({"prior": 1.5}, "baseline 'nnpu': prior must be a number strictly between 0 and 1; got 1.5"),
        ({"settings": {"epoch": 3}}, "unknown setting of baseline 'nnpu' 'epoch': did you mean 'epochs'?"),
        ({"settings": {"epochs": 0}}, "NnPUSettings: epochs must be a whole number ≥ 1; got 0"),
        ({"settings": {"optimiser": "adan"}}, "unknown optimiser 'adan': did you mean 'adam'?"),
        ({"settings": Settings()}, "baseline 'nnpu': settings must be a NnPUSettings or some of its fields"),
        ({"s": [1, 0]}, "baseline 'nnpu': s must be of length 1158"),
        ({"encoder": "lenet5"}, "encoder 'lenet5': x must be images of at least 28 × 28 pixels"),
        ({"seed": -1}, "baseline 'nnpu': seed must be a whole number ≥ 0; got -1"),
    ],
)
def test_bad_input_is_one_line(how: dict[str, Any], message: str) -> None:
    _, x, s, _ = sample("digits")
    given: dict[str, Any] = {"name": "nnpu", "x": x, "s": s, "prior": 0.5, "device": "cpu", **how}
    with pytest.raises(InputError) as caught:
        fit_baseline(given.pop("name"), given.pop("x"), given.pop("s"), **given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_table_given_to_a_method_of_images_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    of_images = replace(BASELINES["nnpu"], inputs=("image",))
    monkeypatch.setattr("pucl.baselines.get", lambda _family, _name: of_images)
    reason = "x must be image data; got table data"
    assert why_not("nnpu", "table", 0.5) == reason
    with pytest.raises(InputError, match="baseline 'nnpu': x must be image data; got vector data"):
        fit_baseline("nnpu", np.zeros((10, 3)), [1] + [0] * 9, prior=0.5)


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    with pytest.raises(RunError, match="baseline 'upu': the loss is not finite in epoch 1 of 'train'; lower the learn"):
        fit("upu", "gaussians", settings={"learning_rate": 1e30, "loss": "logistic"})


def test_rows_too_large_for_the_device_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.baselines.fits", lambda *_: False)
    with pytest.raises(RunError, match="baseline 'naive': x has 0.0 GiB and does not fit on cpu"):
        fit("naive", "digits")
