"""The running average of weights: its formula, and that pretraining and fine-tuning keep it where asked to."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from head_examples import known, two_gaussians
from pucl.errors import InputError
from pucl.heads.finetune import fine_tune, self_train
from pucl.heads.tuning import TuneConfig
from pucl.training import TrainConfig
from pucl.training.averaging import WeightAverage
from pucl.training.pretraining import prepare
from pucl.training.run import train_together


def test_follows_by_its_formula_and_forgets_the_start() -> None:
    linear, norm = nn.Linear(2, 1), nn.BatchNorm1d(1)  # whatever weights they start with
    network = nn.Sequential(linear, norm)
    average = WeightAverage(network, 0.9)
    of_linear, of_norm = average.network
    assert isinstance(of_linear, nn.Linear) and isinstance(of_norm, nn.BatchNorm1d)
    expected = linear.weight.detach().clone()
    for step in range(200):
        with torch.no_grad():
            linear.weight.copy_(torch.tensor([[float(step), -1.0]]))
            norm(torch.arange(8.0)[:, None])  # its statistics move, and it counts batches
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * linear.weight.detach()
        average.prepare(step)
        average.update()
        torch.testing.assert_close(of_linear.weight.detach(), expected)
    assert of_norm.num_batches_tracked is not None and int(of_norm.num_batches_tracked) == 200
    assert float(of_linear.weight[0, 0]) == pytest.approx(199 - 9, abs=0.1), "a mean age of α / (1 − α) steps"
    assert not average.network.training and not any(p.requires_grad for p in average.network.parameters())
    assert network.training and all(p.requires_grad for p in network.parameters())


def test_pretraining_keeps_the_average() -> None:
    z, labelled, _ = two_gaussians(120, gap=3.0, n_labelled=20)
    config = TrainConfig(epochs=2, batch_size=32, optimiser="adamw", learning_rate=1e-2, average=0.8)
    run = prepare(z, labelled, config=config, device="cpu").run
    expected: dict[str, Tensor] = {name: value.detach().clone() for name, value in run.network.named_parameters()}
    for done in run.steps():
        decay = min(0.8, done / (9 + done))  # of step t = done − 1
        for name, value in run.network.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * value.detach()
        last = {name: value.detach().clone() for name, value in run.network.named_parameters()}
    kept = dict(run.network.named_parameters())
    for name, mean in expected.items():
        torch.testing.assert_close(kept[name].detach(), mean)
    assert any(not torch.equal(kept[name], last[name]) for name in last)
    plain = prepare(z, labelled, config=replace(config, average=0.0), device="cpu").run
    train_together([plain])
    assert all(torch.equal(last[name], value) for name, value in plain.network.named_parameters()), "steps are the same"


@pytest.mark.parametrize("tune", [fine_tune, self_train])
def test_fine_tuning_keeps_the_average(tune: Any) -> None:
    z, labelled, y = two_gaussians(300, gap=4.0, n_labelled=30)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder, pseudo = nn.Linear(10, 4), known(labelled, y, 0.4)
    config = TuneConfig(epochs=2, learning_rate=0.05, view=lambda x, _: x)
    last, barely, much = (
        tune(z, labelled, pseudo, encoder, replace(config, average=decay), device="cpu")(z)
        for decay in (0.0, 1e-9, 0.9)
    )
    torch.testing.assert_close(barely, last)  # an average of the last step is the last step
    assert float((much - last).abs().mean()) > 0.05


@pytest.mark.parametrize("value", [1.0, -0.1, float("nan"), "much"])
@pytest.mark.parametrize("config", [TrainConfig, TuneConfig])
def test_bad_decay(config: Any, value: Any) -> None:
    with pytest.raises(InputError, match=rf"{config.__name__}: average must be a number in \[0, 1\); got "):
        config(average=value)
