"""What every registered view, encoder, data set, pseudo-labeller, prior estimator, head and baseline must satisfy."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.data import load
from pucl.encoders import embedding_dim, make_encoder
from pucl.errors import InputError, MissingDataError
from pucl.heads import fit_head
from pucl.metrics import evaluate
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels, labellers, pseudo_label
from pucl.registry import Entry, entries
from pucl.views import make_view

SHAPES: dict[str, list[tuple[int, ...]]] = {"image": [(1, 8, 8), (3, 16, 12)], "table": [(6,)], "vector": [(6,)]}
# Every image encoder takes the first two, and the smaller ones unless it says from which size on it works.
IMAGES_FOR_ENCODERS: list[tuple[int, ...]] = [(1, 28, 28), (3, 32, 32), *SHAPES["image"]]
# What the official files hold: the shape of a row, then (positives, rows) of the training and of the test split.
OFFICIAL: dict[str, tuple[tuple[int, ...], tuple[int, int], tuple[int, int]]] = {
    "mnist1": ((1, 28, 28), (30_508, 60_000), (5_074, 10_000)),
    "fmnist1": ((1, 28, 28), (18_000, 60_000), (3_000, 10_000)),
    "fmnist2": ((1, 28, 28), (42_000, 60_000), (7_000, 10_000)),
    "cifar0": ((3, 32, 32), (5_000, 10_000), (1_000, 2_000)),
    "cifar1": ((3, 32, 32), (20_000, 50_000), (4_000, 10_000)),
    "cifar2": ((3, 32, 32), (30_000, 50_000), (6_000, 10_000)),
    "cifar3": ((3, 32, 32), (20_000, 50_000), (4_000, 10_000)),
    "cifar_easy": ((3, 32, 32), (10_000, 20_000), (2_000, 4_000)),
    "cifar_medium": ((3, 32, 32), (15_000, 20_000), (3_000, 4_000)),
    "cifar_hard": ((3, 32, 32), (10_000, 20_000), (2_000, 4_000)),
    "stl1": ((3, 96, 96), (2_500, 5_000), (4_000, 8_000)),
    "svhn1": ((3, 32, 32), (33_763, 73_257), (12_053, 26_032)),
    "alzheimer": ((1, 128, 128), (2_561, 5_121), (639, 1_279)),
    "alzheimer_grouped": ((1, 128, 128), (2_528, 5_088), (672, 1_312)),
    "imagenet2": ((3, 64, 64), (9_025, 18_494), (3_929, 7_854)),
}


def over(family: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", entries(family).values(), ids=lambda entry: entry.name)


def rows_for(entry: Entry, n: int = 12) -> list[Tensor]:
    g = Generator().manual_seed(0)
    return [torch.rand(n, *shape, generator=g) for kind in entry.inputs for shape in SHAPES[kind]]


@cache
def encoder_shapes(entry: Entry) -> list[tuple[int, ...]]:
    """Shapes the encoder takes; small images may be refused by an error that names x and the smallest size."""
    shapes = [shape for kind in entry.inputs for shape in (IMAGES_FOR_ENCODERS if kind == "image" else SHAPES[kind])]
    return [shape for shape in shapes if not refused_as_small(entry.name, shape)]


def refused_as_small(encoder: str, shape: tuple[int, ...]) -> bool:
    try:
        make_encoder(encoder, shape)
    except InputError as refusal:
        if "x must be images of at least" in str(refusal):
            return True
        raise
    return False


def needed_prior(entry: Entry, prior: float) -> float | None:
    return prior if entry.needs_prior else None


@over("views")
def test_view(entry: Entry) -> None:
    view = make_view(entry.name)
    for x in rows_for(entry):
        before = x.clone()
        first, again = (view(x, Generator().manual_seed(3)) for _ in range(2))
        second = view(x, Generator().manual_seed(4))
        assert first.shape == x.shape and first.dtype == x.dtype and first.isfinite().all()
        assert torch.equal(first, again), "the same generator must give the same view"
        assert not torch.equal(first, second), "another generator must give another view"
        assert torch.equal(x, before), "a view must not change its input"
        state = torch.get_rng_state()
        view(x, Generator().manual_seed(3))
        assert torch.equal(state, torch.get_rng_state()), "a view must not draw from the global generator"


@pytest.mark.slow
@over("encoders")
def test_encoder(entry: Entry) -> None:
    g = Generator().manual_seed(0)
    for shape in encoder_shapes(entry):
        network, x = make_encoder(entry.name, shape), torch.rand(4, *shape, generator=g)
        z = network(x.requires_grad_())
        assert z.shape == (len(x), embedding_dim(network, shape)) and z.isfinite().all()
        z.square().sum().backward()
        assert x.grad is not None and x.grad.isfinite().all()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
        network.eval()
        with torch.no_grad():
            assert torch.allclose(network(x)[:3], network(x[:3]), atol=1e-5), "rows must not depend on their batch"


@pytest.mark.slow
@over("encoders")
def test_encoder_is_drawn_by_its_seed(entry: Entry) -> None:
    shape = encoder_shapes(entry)[0]
    state = torch.get_rng_state()
    network = make_encoder(entry.name, shape, seed=1)
    assert torch.equal(state, torch.get_rng_state()), "making an encoder must not disturb the global generator"
    same, other = make_encoder(entry.name, shape, seed=1), make_encoder(entry.name, shape, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), same.parameters(), strict=True))
    pairs = list(zip(network.parameters(), other.parameters(), strict=True))
    assert not pairs or not all(torch.equal(a, b) for a, b in pairs), "only what has no weights needs no seed"


@over("encoders")
def test_encoder_takes_the_sizes_of_the_benchmarks(entry: Entry) -> None:
    if "image" in entry.inputs:
        assert encoder_shapes(entry)[:2] == IMAGES_FOR_ENCODERS[:2]


def test_official_files_are_those_of_data_sets() -> None:
    assert set(OFFICIAL) <= set(entries("datasets"))


@over("datasets")
def test_dataset(entry: Entry) -> None:
    try:
        data, again = load(entry.name, seed=0), load(entry.name, seed=0)
    except MissingDataError as absent:
        pytest.skip(str(absent))
    assert np.array_equal(data.x_train, again.x_train) and np.array_equal(data.y_test, again.y_test)
    assert data.kind in entry.inputs and data.name == entry.name
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        assert x.ndim == {"image": 4, "text": 1}.get(data.kind, 2) and len(x) == len(y)
        assert y.dtype == np.bool_ and 0 < y.mean() < 1
    assert data.x_train.shape[1:] == data.x_test.shape[1:]
    if entry.name in OFFICIAL:
        shape, train, test = OFFICIAL[entry.name]
        assert data.x_train.shape[1:] == shape and data.x_train.dtype == np.uint8
        assert (int(data.y_train.sum()), len(data.x_train)) == train and data.prior == train[0] / train[1]
        assert (int(data.y_test.sum()), len(data.x_test)) == test


def blobs(n: int = 1000, *, seed: int = 0, gap: float = 6.0) -> tuple[Tensor, Tensor, Tensor]:
    """Two clusters in directions a labeller on the sphere can tell apart: z, labelled, truth (positives first)."""
    g = Generator().manual_seed(seed)
    y = torch.arange(n) < n // 2
    centres = torch.zeros(2, 8)
    centres[0, 0] = centres[1, 1] = gap
    z = torch.randn(n, 8, generator=g) + centres[(~y).long()]
    return z, y & (torch.arange(n) % 5 == 0), y


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
@pytest.mark.parametrize("entry", labellers().values(), ids=lambda entry: entry.name)
def test_pseudo_labeller(entry: Entry) -> None:
    z, labelled, y = blobs()
    prior = needed_prior(entry, 0.44)
    found = pseudo_label(z, labelled, method=entry.name, prior=prior)
    again = pseudo_label(z, labelled, method=entry.name, prior=prior)
    assert isinstance(found, PseudoLabels)
    assert all(len(v) == len(z) for v in (found.labels, found.probability, found.reliability))
    assert torch.equal(found.probability, again.probability), "the same seed must give the same labels"
    for value in (found.probability, found.reliability):
        assert ((value >= 0) & (value <= 1)).all()
    assert torch.equal(found.labels, found.probability > 0.5)
    assert found.labels[labelled].all() and (found.reliability[labelled] == 1).all()
    assert 0 <= found.prior <= 1
    assert (found.labels == y)[~labelled].float().mean() > 0.97
    order = torch.randperm(len(z), generator=Generator().manual_seed(1))
    shuffled = pseudo_label(z[order], labelled[order], method=entry.name, prior=prior)
    assert (shuffled.labels == found.labels[order]).float().mean() > 0.97, "row order must not matter"


@over("priors")
@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 0.7])
def test_prior_estimator(entry: Entry, alpha: float) -> None:
    r, points = np.random.RandomState(0), "vector" in entry.inputs
    n = 300 if points else 1000
    positive, k = r.beta(30, 1, n), round(alpha * 2 * n)
    unlabelled = np.r_[r.beta(30, 1, k), r.beta(1, 30, 2 * n - k)]
    if points:
        positive, unlabelled = positive[:, None], unlabelled[:, None]
    found, again = (entry.function(positive, unlabelled) for _ in range(2))
    assert isinstance(found, PriorEstimate) and found.method == entry.name
    assert found == again, "the same seed must give the same estimate"
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low <= alpha <= found.high
    assert found.value == pytest.approx(alpha, abs=0.12 if points else 0.05)
    if "score" in entry.inputs:
        shifted = entry.function(np.exp(positive), np.exp(unlabelled))
        assert shifted.value == pytest.approx(found.value, abs=1e-9), "only the order of scores may matter"


@over("heads")
def test_head(entry: Entry) -> None:
    z, labelled, y = blobs()
    z_test, _, y_test = blobs(seed=1)
    pseudo = PseudoLabels.from_probability(y.float(), labelled)
    head = fit_head(z, labelled, pseudo, method=entry.name)
    assert isinstance(head, nn.Module)
    logits = head(z_test)
    assert logits.shape == (len(z_test),) and logits.isfinite().all()
    assert evaluate(y_test, logits.detach()).accuracy > 0.97
