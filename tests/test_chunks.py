"""Cached gradients: a batch in chunks gives the loss and the gradients of the whole batch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.encoders.inputs import to_float
from pucl.encoders.projection import projection_head
from pucl.errors import InputError, RunError
from pucl.losses import make_objective
from pucl.registry import entries
from pucl.training import Checkpoints, Pretrained, TrainConfig, pretrain
from pucl.training.batches import epoch_order
from pucl.training.chunks import InChunks
from pucl.training.update import Update
from pucl.views import View, make_view
from pucl.views.row_generator import rows_generator

OPTIONS: dict[str, dict[str, Any]] = {"dcl": {"prior": 0.3}, "punce": {"prior": 0.3}, "mcl": {"mixing": 0.4}}
B, CHUNKS = 24, 4
DATA = load("digits")
SAMPLE = make_pu(DATA.y_train, 100)
X, S = DATA.x_train[SAMPLE.rows], SAMPLE.s
WHOLE = TrainConfig(epochs=2, batch_size=128, learning_rate=0.3)


@pytest.fixture
def rows(generator: torch.Generator) -> Tensor:
    return torch.randint(256, (B, 1, 8, 8), generator=generator, dtype=torch.uint8)


def network(*middle: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(1, 6, 3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(216, 20))
    return nn.Sequential(encoder, projection_head(20, hidden=16, out=8)).train()


def gradient(
    own: nn.Sequential, rows: Tensor, objective: Any, *, chunks: int, view: View | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The loss of a batch and the gradient of every parameter."""
    labelled = torch.arange(B) < 5
    rowwise = view is None
    update = Update(
        network=own if chunks == 1 else InChunks(own, chunks),
        view=view or make_view("small_image"),
        objective=objective,
        optimiser=torch.optim.SGD(own.parameters(), lr=0.0),
        generator=rows_generator(torch.device("cpu"), 0, chunks if rowwise else 1).manual_seed(1),
        chunks=chunks,
    )
    loss, z1, z2 = update.gradient(rows, labelled)
    assert z1.shape == z2.shape == (B, 8)
    return loss.detach(), [p.grad.clone() for p in own.parameters() if p.grad is not None]


def assert_close(one: list[Tensor], other: list[Tensor]) -> None:
    assert len(one) == len(other) > 4
    for a, b in zip(one, other, strict=True):
        assert (a - b).abs().max() <= 1e-5 * max(1.0, float(a.abs().max()))


@pytest.mark.parametrize("name", sorted(entries("losses")))
def test_loss_and_gradients_are_those_of_the_whole_batch(name: str, rows: Tensor) -> None:
    """The projection head has batch norm, over the whole batch; the encoder has none."""
    objective, own = make_objective(name, **OPTIONS.get(name, {})), network(nn.GroupNorm(2, 6))
    (loss, whole), (cached, parts) = (gradient(own, rows, objective, chunks=chunks) for chunks in (1, CHUNKS))
    assert float(cached) == pytest.approx(float(loss), abs=1e-5)
    assert_close(whole, parts)


def test_a_view_that_mixes_rows_is_made_once(rows: Tensor) -> None:
    calls = []

    def mixed(x: Tensor, generator: torch.Generator) -> Tensor:
        calls.append(len(x))
        return x.lerp(x[torch.randperm(len(x), generator=generator)], 0.2)

    objective, own = make_objective("pucl"), network()
    (loss, whole), (cached, parts) = (gradient(own, rows, objective, chunks=c, view=mixed) for c in (1, CHUNKS))
    assert calls == [2 * B, 2 * B] and float(cached) == pytest.approx(float(loss), abs=1e-5)
    assert_close(whole, parts)


def test_batch_norm_sees_a_chunk_and_is_updated_once(rows: Tensor) -> None:
    """Against chunks written out, all of them kept in memory."""
    objective, labelled = make_objective("pucl"), torch.arange(B) < 5
    own, reference = (network(nn.BatchNorm2d(6), nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6)) for _ in range(2))
    loss, parts = gradient(own, rows, objective, chunks=CHUNKS)

    generator = torch.Generator().manual_seed(1)
    views = make_view("small_image")(to_float(rows).repeat_interleave(2, dim=0), generator)
    z = reference[1](torch.cat([reference[0](chunk) for chunk in views.chunk(CHUNKS)]))
    expected = objective(z[0::2], z[1::2], labelled)
    expected.backward()  # type: ignore[no-untyped-call]
    assert float(loss) == pytest.approx(float(expected.detach()), abs=1e-5)
    assert_close([p.grad for p in reference.parameters() if p.grad is not None], parts)
    for (name, mine), theirs in zip(own.named_buffers(), reference.buffers(), strict=True):
        assert torch.allclose(mine.float(), theirs.float(), atol=1e-6), name
    assert int(own.get_buffer("0.1.num_batches_tracked")) == CHUNKS
    whole, _ = gradient(reference, rows, objective, chunks=1)
    assert abs(float(whole) - float(loss)) > 1e-4, "otherwise this test could not tell chunks from batches"


def test_dropout_drops_the_same_units_in_both_passes(rows: Tensor) -> None:
    """The gradient is that of the very loss: along it, the loss of the same draws changes as it says."""
    own, objective = network(nn.Dropout(0.5)).double(), make_objective("sscl")

    def drawn() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(7)
        return gradient(own, rows, objective, chunks=CHUNKS, view=lambda x, _: x.double())

    with torch.random.fork_rng(devices=[]):
        loss, parts = drawn()
        after = torch.rand(3)
        step = 1e-6
        with torch.no_grad():
            torch._foreach_sub_(list(own.parameters()), [step * part for part in parts])
        moved, _ = drawn()
        assert torch.equal(torch.rand(3), after), "the second pass leaves the generator where the first one did"
    slope = float((loss - moved) / step)
    assert slope == pytest.approx(sum(float(part.square().sum()) for part in parts), rel=1e-3)


def test_every_chunk_has_its_share_of_labelled_rows() -> None:
    labelled = torch.as_tensor(S)
    config = TrainConfig(batch_size=128, chunk_size=16, labelled_share=0.25)
    order, whole = (epoch_order(labelled, c, 0) for c in (config, replace(config, chunk_size=None)))
    assert (labelled[order].view(len(order), 8, 16).sum(dim=2) == 4).all()
    assert torch.equal(order.sort().values, whole.sort().values), "the batches are the same"


def weights(trained: Pretrained) -> Tensor:
    return torch.cat([p.detach().flatten() for p in trained.encoder.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["image", "table"])
def test_a_run_in_chunks_is_the_run_of_whole_batches(kind: str) -> None:
    x = X if kind == "image" else X.reshape(len(X), -1).astype(np.float32) / 255

    def run(config: TrainConfig) -> Pretrained:
        torch.manual_seed(0)
        own = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
        return pretrain(x, S, encoder=own, config=config)

    whole, parts = run(WHOLE), run(replace(WHOLE, chunk_size=32))
    for one, other in zip(whole.history, parts.history, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    assert torch.allclose(weights(whole), weights(parts), atol=1e-5)


class StopHereError(Exception):
    pass


@pytest.mark.slow
def test_a_resumed_run_in_chunks_is_the_run_bit_for_bit(tmp_path: Path) -> None:
    def stop(done: int, _: int) -> None:
        if done == 12:
            raise StopHereError

    config, where = replace(WHOLE, chunk_size=32), Checkpoints(tmp_path, every=1)
    whole = pretrain(X, S, config=config)
    with pytest.raises(StopHereError):
        pretrain(X, S, config=config, checkpoints=where, on_step=stop)
    resumed = pretrain(X, S, config=config, checkpoints=where, resume=True)
    assert torch.equal(weights(whole), weights(resumed))
    with pytest.raises(InputError, match="config.chunk_size was 32; this run has 64"):
        pretrain(X, S, config=replace(config, chunk_size=64), checkpoints=where, resume=True)


def test_out_of_memory_names_a_chunk_that_fits() -> None:
    class Hungry(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 8)

        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 40:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            out: Tensor = self.layer(x.flatten(1))
            return out

    for chunk, said in (
        (None, "a batch size of 512 .*; 16 would, and so would chunks of 16"),
        (64, "a chunk size of 64"),
    ):
        with pytest.raises(RunError, match=said):
            pretrain(X, S, encoder=Hungry(), config=replace(WHOLE, batch_size=512, chunk_size=chunk))
    pretrain(X, S, encoder=Hungry(), config=replace(WHOLE, batch_size=512, chunk_size=16, epochs=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk_size": 48}, r"chunk_size must be a divisor of batch_size \(128\); got 48"),
        ({"chunk_size": 256}, r"chunk_size must be a divisor of batch_size \(128\); got 256"),
        ({"chunk_size": 1}, "chunk_size must be a whole number ≥ 2; got 1"),
        ({"chunk_size": 64, "compile": True}, "compile must be left out with chunk_size"),
        ({"chunk_size": 64, "capture": True}, "capture must be left out with chunk_size"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"TrainConfig: {message}"):
        replace(WHOLE, **change)
