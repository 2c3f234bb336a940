import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder, Standardise, to_float
from pucl.errors import InputError, RunError
from pucl.training import TrainConfig, pretrain
from pucl.training.batches import epoch_order, streamed_batches
from pucl.training.optimisers import make_optimiser
from pucl.training.pretraining import prepare
from pucl.training.reporting import Epoch
from pucl.training.run import train_together
from pucl.training.schedule import learning_rate
from pucl.training.sgd import SGD
from pucl.views import make_view

DATA = load("digits")
SAMPLE = make_pu(DATA.y_train, 100)
X, S = DATA.x_train[SAMPLE.rows], SAMPLE.s
QUICK = TrainConfig(epochs=2, batch_size=128, learning_rate=4.0)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.slow
def test_training_lowers_the_loss_and_reports_every_epoch() -> None:
    heard: list[Epoch] = []
    trained = pretrain(X, S, config=TrainConfig(epochs=6, batch_size=128, learning_rate=4.0), on_epoch=heard.append)
    assert heard == trained.history and [epoch.number for epoch in heard] == [1, 2, 3, 4, 5, 6]
    assert heard[-1].loss < heard[0].loss - 0.1


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights() -> None:
    state = torch.get_rng_state()
    first, again = (weights(pretrain(X, S, config=QUICK).encoder) for _ in range(2))
    other = weights(pretrain(X, S, config=replace(QUICK, seed=1)).encoder)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state()), "training must not disturb the global generator"


@pytest.mark.slow
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
    config = TrainConfig(epochs=3, batch_size=20)
    by_default, named = (pretrain(x, np.arange(40) < 9, view=view, config=config).encoder for view in (None, "simclr"))
    assert torch.equal(weights(by_default), weights(named))


def test_a_batch_is_no_larger_than_the_data() -> None:
    x, s = X[95:125], S[95:125]
    with pytest.raises(InputError, match=r"batch_size must be at most the number of rows \(30\); got 128"):
        pretrain(x, s, config=QUICK)
    order = epoch_order(torch.as_tensor(S), QUICK, 0)
    assert order.shape == (len(X) // 128, 128) and len(set(order.flatten().tolist())) == order.numel()
    assert not torch.equal(order, epoch_order(torch.as_tensor(S), QUICK, 1)), "every epoch has its own order"


def test_a_stated_share_of_labelled_rows() -> None:
    labelled = torch.as_tensor(S)
    config = TrainConfig(batch_size=128, labelled_share=0.25)
    order = epoch_order(labelled, config, 0)
    assert order.shape == (len(X) // 128, 128) and (labelled[order].sum(dim=1) == 32).all()
    unlabelled = order[~labelled[order]]
    assert len(set(unlabelled.tolist())) == len(unlabelled), "no unlabelled row comes twice before all have come"
    times = torch.bincount(order[labelled[order]], minlength=len(X))[labelled]
    assert times.max() - times.min() <= 1, "labelled rows take turns"


@pytest.mark.slow
def test_streamed_rows_are_the_same_rows(tmp_path: Path) -> None:
    config = TrainConfig(epochs=2, batch_size=256)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    whole = pretrain(X, S, config=config).encoder
    streamed = pretrain(mapped, S, config=replace(config, resident=False)).encoder
    assert torch.equal(weights(whole), weights(streamed))
    assert not [thread for thread in threading.enumerate() if thread.name == "pucl-batches"]


def test_an_error_while_reading_reaches_the_caller() -> None:
    class BrokenError(Exception):
        pass

    class Rows(Tensor):
        def index_select(self, *_: Any) -> Tensor:
            raise BrokenError

    batches = streamed_batches(torch.zeros(4, 2).as_subclass(Rows), torch.zeros(2, 2).long(), torch.device("cpu"))
    with pytest.raises(BrokenError):
        next(batches)


def test_reading_that_is_stopped_as_it_starts_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(streamed_batches(torch.zeros(4, 2), torch.zeros(9, 2).long(), torch.device("cpu")))
    assert not [thread for thread in threading.enumerate() if thread.name == "pucl-batches"]


@pytest.mark.slow
def test_runs_side_by_side_are_the_runs_alone() -> None:
    configs = [replace(QUICK, seed=seed) for seed in range(3)]
    alone = [pretrain(X, S, config=config) for config in configs]
    together = [prepare(X, S, config=config) for config in configs]
    train_together([work.run for work in together])
    for one, work in zip(alone, together, strict=True):
        assert torch.equal(weights(one.encoder), weights(work.result().encoder))
        assert one.history == work.result().history


@pytest.mark.slow
def test_held_out_labels_are_hidden_and_watched() -> None:
    trained = pretrain(X, S, config=replace(QUICK, held_out=0.2))
    assert len(trained.held_out) == 20 and S[trained.held_out].all()
    hidden = S.copy()
    hidden[trained.held_out] = False
    assert torch.equal(weights(trained.encoder), weights(pretrain(X, hidden, config=QUICK).encoder))
    health = trained.history[-1].health
    assert health is not None and health.n_held == 20 and health.separation is not None
    assert pretrain(X, S, config=QUICK).history[-1].health.separation is None  # type: ignore[union-attr]


@pytest.mark.slow
def test_compiled_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    def traced(what: Any, **options: Any) -> Any:  # without a C++ compiler
        compiled.append(what)
        return compile_with(what, backend="aot_eager", **options)

    compile_with = torch.compile
    monkeypatch.setattr(torch, "compile", traced)
    x, s, config = X[60:124], S[60:124], TrainConfig(epochs=4, batch_size=32)
    plain, fast = (pretrain(x, s, config=replace(config, compile=how)) for how in (False, True))
    assert len(compiled) == 2, "network and view"
    for one, other in zip(plain.history, fast.history, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-4)
    assert list(plain.encoder.state_dict()) == list(fast.encoder.state_dict())


@pytest.mark.slow
def test_clipping_shortens_long_gradients_only() -> None:
    free, loose, tight = (
        weights(pretrain(X, S, config=replace(QUICK, clip=clip)).encoder) for clip in (None, 1e6, 1e-3)
    )
    assert torch.equal(free, loose) and not torch.equal(free, tight)


def test_sgd_is_that_of_torch() -> None:
    one, other = (nn.Parameter(torch.tensor([[3.0, -4.0]])) for _ in range(2))
    mine = SGD([one], lr=torch.tensor(0.1), momentum=0.9, weight_decay=0.01)
    theirs = torch.optim.SGD([other], lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(4):
        for parameter, optimiser in ((one, mine), (other, theirs)):
            optimiser.zero_grad()
            torch.autograd.backward((parameter**3).sum())
            optimiser.step()
    assert torch.allclose(one, other)


@pytest.mark.parametrize(("name", "decayed"), [("lars", set()), ("sgd", {"0.weight"}), ("adamw", {"0.weight"})])
def test_what_is_decayed_without_a_gradient(name: Any, decayed: set[str]) -> None:
    """Never norms and biases; by LARS, as the authors use it, nothing."""
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = {key: value.clone() for key, value in network.named_parameters()}
    optimiser, rate = make_optimiser(TrainConfig(optimiser=name, weight_decay=0.1), network)
    rate.fill_(0.5)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    moved = {key for key, value in network.named_parameters() if not torch.equal(value, before[key])}
    assert moved == decayed


def test_out_of_memory_names_a_batch_that_fits() -> None:
    class Hungry(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 8)

        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 100:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            out: Tensor = self.layer(x.flatten(1))
            return out

    with pytest.raises(RunError, match="a batch size of 512 does not fit into memory; 32 would"):
        pretrain(X, S, encoder=Hungry(), config=replace(QUICK, batch_size=512))


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


def test_output_norm_standardises_the_projections() -> None:
    plain, normed = (
        prepare(X, S, config=replace(QUICK, output_norm=how)).run.network[1]  # type: ignore[index]
        for how in (False, True)
    )
    z = torch.randn(64, plain[0].in_features, generator=Generator().manual_seed(0))
    out = normed.train()(z)
    assert torch.allclose(out.mean(dim=0), torch.zeros(128), atol=1e-5)
    assert torch.allclose(out.var(dim=0, correction=0), torch.ones(128), atol=1e-2)
    assert not torch.allclose(plain.train()(z).mean(dim=0), torch.zeros(128), atol=1e-2)
    assert normed[-2].bias is None and len(list(normed.parameters())) == len(list(plain.parameters())) + 1


def test_schedule_rises_then_falls() -> None:
    rates = [learning_rate(step, total=100, warmup=10, peak=2.0, final=0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == pytest.approx(2.0)
    assert max(rates) == pytest.approx(2.0) and rates[-1] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[10 + 89 // 2] == pytest.approx(1.05, abs=0.05)


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
        ({"encoder": "small_cn"}, "unknown encoder 'small_cn': did you mean 'small_cnn'?"),
        ({"encoder": "small_cnn", "x": X.reshape(len(X), -1)}, "x must be rows of image data; got rows of shape (64,)"),
        ({"encoder": Flat()}, "the encoder's output must be of shape (batch, dim); got shape (128,)"),
        ({"objective": "pucll"}, "unknown loss 'pucll': did you mean 'pucl'?"),
        ({"view": "smal_image"}, "unknown view 'smal_image': did you mean 'small_image'?"),
        ({"temperature": -1}, "temperature must be a finite number > 0; got -1"),
        ({"device": "cuda:0"}, "device must be 'cpu' on a machine without a CUDA device"),
        ({"config": TrainConfig(capture=True, batch_size=9)}, "capture must be True on one process with a CUDA device"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    call = {"x": X, "s": S, "config": QUICK, **change}
    with pytest.raises(InputError) as caught:
        pretrain(call.pop("x"), call.pop("s"), **call)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"batch_size": 1},
        {"learning_rate": 0},
        {"momentum": 1.0},
        {"seed": -1},
        {"projection": (0, 8)},
        {"projection": (8,)},
        {"clip": 0},
        {"labelled_share": 1.0},
        {"held_out": 1.0},
    ],
)
def test_bad_configuration(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"TrainConfig: {next(iter(change))} must be "):
        TrainConfig(**change)


def test_a_view_with_options_is_trusted_as_one_by_name() -> None:
    views = ("small_image", make_view("small_image", rotation=5.0), lambda x, _: x)
    assert [prepare(X, S, view=view, config=QUICK).run.trusted for view in views] == [True, True, False]
