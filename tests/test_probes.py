"""Probes of embeddings: nearest neighbours and a linear classifier with true labels."""

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.bench.run.probes import knn_accuracy, linear_probe_accuracy
from pucl.errors import InputError


def directions(n: int, seed: int) -> tuple[Tensor, Tensor]:
    g = Generator().manual_seed(seed)
    y = torch.rand(n, generator=g) < 0.4
    return torch.randn(n, 5, generator=g) + y[:, None] * torch.tensor([1.0, 1.0, 0, 0, 0]), y


def slow_knn(z: Tensor, y: Tensor, z_test: Tensor, y_test: Tensor, k: int, temperature: float) -> float:
    right = 0
    for row, truth in zip(z_test.double(), y_test, strict=True):
        cosines = [float(row @ other / row.norm() / other.norm()) for other in z.double()]
        nearest = sorted(range(len(z)), key=lambda i: -cosines[i])[:k]
        votes = {True: 0.0, False: 0.0}
        for i in nearest:
            votes[bool(y[i])] += math.exp(cosines[i] / temperature)
        right += (votes[True] > votes[False]) == bool(truth)
    return right / len(z_test)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.1), (7, 0.1), (8, 0.01), (60, 1.0)])
@pytest.mark.parametrize("piece", [1, 1000, 1 << 24])
def test_knn_equals_the_slow_loop(k: int, temperature: float, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.numerics.nearest.BLOCK", piece)
    z, y = directions(60, 0)
    z_test, y_test = directions(41, 1)
    found = knn_accuracy(z, y.numpy(), z_test, y_test.int(), k=k, temperature=temperature)
    assert found == slow_knn(z, y, z_test, y_test, k, temperature)
    assert 0.5 < found < 1


def test_knn_survives_a_tiny_temperature() -> None:
    z, y = directions(60, 0)
    nearest = knn_accuracy(z, y, z, y, k=1)
    assert nearest == 1.0 == knn_accuracy(z, y, z, y, k=60, temperature=1e-4)


def test_linear_probe() -> None:
    y = torch.arange(200) % 3 == 0
    z = torch.randn(200, 6, generator=Generator().manual_seed(0))
    z[:, 2] = torch.where(y, 2.0, -1.0)
    unit = nn.functional.normalize(z)
    assert linear_probe_accuracy(unit, y, unit, y.numpy()) == 1.0
    assert linear_probe_accuracy(unit, y, unit, ~y) == 0.0
    noise, other = (torch.randn(400, 6, generator=Generator().manual_seed(seed)) for seed in (1, 2))
    half = torch.arange(400) % 2 == 0
    assert linear_probe_accuracy(noise, half, other, half) == pytest.approx(0.5, abs=0.1)


def test_probes_refuse_what_does_not_fit() -> None:
    z, y = directions(20, 0)
    with pytest.raises(InputError, match="^knn_accuracy: k must be a whole number from 1 to 20; got 200$"):
        knn_accuracy(z, y, z, y)
    with pytest.raises(InputError, match="knn_accuracy: temperature must be a finite number > 0; got 0"):
        knn_accuracy(z, y, z, y, k=3, temperature=0)
    with pytest.raises(InputError, match="z_test and y_test must be of shapes"):
        linear_probe_accuracy(z, y, z, y[1:])
    with pytest.raises(InputError, match="z_test must be of 5 columns, as z_train; got 4 columns"):
        knn_accuracy(z, y, z[:, 1:], y, k=3)
    with pytest.raises(InputError, match="z_train must be finite; got NaN or infinity in 1 rows, first 4"):
        knn_accuracy(z.index_fill(0, torch.tensor([4]), math.nan), y, z, y, k=3)
    with pytest.raises(InputError, match="y_train must be a vector with both classes; got one class only"):
        linear_probe_accuracy(z, torch.ones(20), z, y)
