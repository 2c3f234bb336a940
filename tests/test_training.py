from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.embeddings import embed
from pucl.encoders.inputs import Encoder, Standardise, to_float
from pucl.errors import InputError
from pucl.training import TrainConfig, pretrain
from pucl.training.lars import LARS
from pucl.training.loop import Epoch
from pucl.training.schedule import learning_rate

DATA = load("digits")
SAMPLE = make_pu(DATA.y_train, 100)
X, S = DATA.x_train[SAMPLE.rows], SAMPLE.s
QUICK = TrainConfig(epochs=3, batch_size=128, learning_rate=4.0)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_training_lowers_the_loss_and_reports_every_epoch() -> None:
    heard: list[Epoch] = []
    trained = pretrain(X, S, config=TrainConfig(epochs=6, batch_size=128, learning_rate=4.0), on_epoch=heard.append)
    assert heard == trained.history and [epoch.number for epoch in heard] == [1, 2, 3, 4, 5, 6]
    assert heard[-1].loss < heard[0].loss - 0.1


def test_the_same_seed_gives_the_same_weights() -> None:
    state = torch.get_rng_state()
    first, again = (weights(pretrain(X, S, config=QUICK).encoder) for _ in range(2))
    other = weights(pretrain(X, S, config=TrainConfig(epochs=3, batch_size=128, learning_rate=4.0, seed=1)).encoder)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state()), "training must not disturb the global generator"


def test_labels_reach_the_objective() -> None:
    with_labels, without = (pretrain(X, S, objective=name, config=QUICK).encoder for name in ("pucl", "sscl"))
    assert not torch.equal(weights(with_labels), weights(without))


def test_tables_and_own_parts() -> None:
    data = load("gaussians")
    sample = make_pu(data.y_train, 50)
    x = data.x_train[sample.rows]
    assert embed(pretrain(x, sample.s, config=QUICK).encoder, x).shape == (len(x), 300)

    def shake(rows: Tensor, generator: Generator) -> Tensor:
        return rows + 0.1 * torch.randn(rows.shape, generator=generator)

    own = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 7))
    z = embed(pretrain(x, sample.s, encoder=own, view=shake, config=QUICK).encoder, x)
    assert z.shape == (len(x), 7) and torch.allclose(z.norm(dim=1), torch.ones(len(x)))


def test_larger_images_get_the_views_of_simclr() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(256, size=(40, 3, 16, 16), dtype=np.uint8)
    by_default, named = (pretrain(x, np.arange(40) < 9, view=view, config=QUICK).encoder for view in (None, "simclr"))
    assert torch.equal(weights(by_default), weights(named))


def test_embedding_does_not_depend_on_the_batch() -> None:
    encoder = pretrain(X, S, config=QUICK).encoder
    assert torch.allclose(embed(encoder, X, batch_size=100), embed(encoder, X), atol=1e-6)


def test_standardise_is_computed_from_the_data() -> None:
    x = torch.randint(256, (50, 3, 4, 5), dtype=torch.uint8)
    out = Standardise.of(x)(to_float(x))
    assert torch.allclose(out.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(out.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-5)
    constant = torch.ones(5, 2)
    assert torch.equal(Standardise.of(constant)(constant), torch.zeros(5, 2))
    assert Encoder(Standardise.of(x), nn.Flatten())(x).shape == (50, 60)


def test_schedule_rises_then_falls() -> None:
    rates = [learning_rate(step, total=100, warmup=10, peak=2.0, final=0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == pytest.approx(2.0)
    assert max(rates) == pytest.approx(2.0) and rates[-1] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[10 + 89 // 2] == pytest.approx(1.05, abs=0.05)


def test_lars_step_by_hand() -> None:
    weight, bias = nn.Parameter(torch.tensor([[3.0, 4.0]])), nn.Parameter(torch.tensor([2.0]))
    optimiser = LARS([weight, bias], lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.02)
    weight.grad, bias.grad = torch.tensor([[0.0, 2.0]]), torch.tensor([1.0])
    optimiser.step()
    trust = 0.02 * 5 / (2 + 0.1 * 5)
    first = trust * torch.tensor([[0.0 + 0.3, 2.0 + 0.4]])
    assert torch.allclose(weight, torch.tensor([[3.0, 4.0]]) - 0.5 * first)
    assert torch.allclose(bias, torch.tensor([1.5])), "a vector takes a plain step"
    optimiser.step()
    assert torch.allclose(bias, torch.tensor([1.5 - 0.5 * 1.9])), "momentum carries over"


def test_lars_with_zero_weights_or_gradients_is_finite() -> None:
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.zeros(2, 2)
    LARS([weight], lr=1.0).step()
    assert torch.equal(weight, torch.zeros(2, 2))


class Flat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": X[:5]}, "s must be of length 5"),
        ({"s": [0] * len(X)}, "at least one labelled positive"),
        ({"x": X[:, 0]}, "x must be images (n, c, h, w) or rows (n, d); got shape (1158, 8, 8)"),
        ({"x": X.astype(float) * float("nan")}, "x must be finite; got NaN or infinity in 1158 rows, first 0"),
        ({"x": X[98:101], "s": [1, 1, 0]}, "x must be at least 4 rows; got 3"),
        ({"encoder": "small_cn"}, "unknown encoders 'small_cn': did you mean 'small_cnn'?"),
        ({"encoder": "small_cnn", "x": X.reshape(len(X), -1)}, "x must be rows of image data; got rows of shape (64,)"),
        ({"encoder": Flat()}, "the encoder's output must be of shape (batch, dim); got shape (128,)"),
        ({"objective": "pucll"}, "unknown losses 'pucll': did you mean 'pucl'?"),
        ({"view": "smal_image"}, "unknown views 'smal_image': did you mean 'small_image'?"),
        ({"temperature": -1}, "temperature must be a finite number > 0; got -1"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    call = {"x": X, "s": S, "config": QUICK, **change}
    with pytest.raises(InputError) as caught:
        pretrain(call.pop("x"), call.pop("s"), **call)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"epochs": 0}, {"batch_size": 1}, {"learning_rate": 0}, {"momentum": 1.0}, {"seed": -1}, {"projection": (0, 8)}],
)
def test_bad_configuration(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"TrainConfig: {next(iter(change))} must be "):
        TrainConfig(**change)
