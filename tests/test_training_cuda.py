"""What only a GPU can show of the training loop: graphs, compiling, streaming, deterministic runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pucl.encoders import make_encoder
from pucl.training import Checkpoints, Pretrained, TrainConfig, pretrain

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("ignore"),  # compilers warn of what they choose
]
RNG = np.random.default_rng(0)
X, S = RNG.integers(256, size=(640, 3, 32, 32), dtype=np.uint8), np.arange(640) < 60
CONFIG = TrainConfig(epochs=4, batch_size=64, learning_rate=0.5, precision="float32", compile=False, capture=False)


def train(change: dict[str, Any], encoder: str = "cnn7bn", **options: Any) -> Pretrained:
    config = replace(CONFIG, **change)
    return pretrain(X, S, encoder=encoder, view="simclr", config=config, device="cuda", **options)


def losses(trained: Pretrained) -> list[float]:
    return [epoch.loss for epoch in trained.history]


def weights(trained: Pretrained) -> Tensor:
    return torch.cat([p.detach().flatten() for p in trained.encoder.parameters()])


@pytest.mark.parametrize("change", [{"capture": True}, {"compile": True}, {"compile": True, "capture": True}], ids=str)
def test_faster_ways_compute_the_same(change: dict[str, Any]) -> None:
    slow = {"deterministic": True}
    assert losses(train(slow | change)) == pytest.approx(losses(train(slow)), abs=2e-3)


@pytest.mark.parametrize("name", ["lars", "sgd", "adamw"])
def test_every_optimiser_can_be_captured(name: str) -> None:
    change = {"optimiser": name, "learning_rate": 1e-3 if name == "adamw" else 0.1, "clip": 1.0, "deterministic": True}
    plain, captured = (losses(train(change | {"capture": capture})) for capture in (False, True))
    assert captured == pytest.approx(plain, abs=2e-3) and len(set(captured)) == 4


def test_deterministic_runs_are_the_same_to_the_bit() -> None:
    change = {"deterministic": True, "precision": "auto", "capture": True}
    assert torch.equal(weights(train(change)), weights(train(change)))


def test_chunks_are_the_whole_batch_and_repeat_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # it rounds 16 rows and 64 differently
    slow = {"deterministic": True, "learning_rate": 0.005}  # a hundred times the rate amplifies rounding to 1e-2
    whole, parts = (losses(train(slow | {"chunk_size": chunk}, "cnn7")) for chunk in (None, 16))
    assert parts == pytest.approx(whole, abs=1e-4)
    change = {"deterministic": True, "precision": "auto", "chunk_size": 16, "capture": None}
    assert torch.equal(weights(train(change)), weights(train(change)))


def test_streamed_is_resident() -> None:
    change = {"deterministic": True, "capture": True}
    assert torch.equal(weights(train(change | {"resident": False})), weights(train(change | {"resident": True})))


def test_resumed_is_uninterrupted(tmp_path: Any) -> None:
    class StoppedError(Exception):
        pass

    def stop(epoch: Any) -> None:
        if epoch.number == 2:
            raise StoppedError

    change = {"deterministic": True}
    where = Checkpoints(tmp_path, every=1)
    with pytest.raises(StoppedError):
        train(change, checkpoints=where, on_epoch=stop)
    assert torch.equal(weights(train(change)), weights(train(change, checkpoints=where, resume=True)))


def test_out_of_memory_names_a_batch_that_fits() -> None:
    from pucl.errors import RunError

    class Hungry(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = make_encoder("cnn7bn", (3, 32, 32))

        def forward(self, x: Tensor) -> Tensor:
            wide = x.new_zeros(len(x), 2**30, requires_grad=False)  # 4 GiB a row
            out: Tensor = self.inner(x) + wide[:, :1]
            return out

    with pytest.raises(RunError, match=r"a batch size of 512 does not fit into memory; \d+ would"):
        pretrain(X, S, encoder=Hungry(), view="simclr", config=replace(CONFIG, batch_size=512), device="cuda")
