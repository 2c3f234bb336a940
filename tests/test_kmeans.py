import math

import pytest
import torch
from torch import Generator, Tensor

import pucl.numerics.kmeans as module
from pucl.errors import InputError
from pucl.numerics.kmeans import CentredRows, Clusters, fill_empty, kmeans, lloyd


def blobs(n: int = 900, *, k: int = 8, d: int = 5, spread: float = 1.0, seed: int = 0) -> Tensor:
    g = Generator().manual_seed(seed)
    centres = 6 * torch.randn(k, d, generator=g)
    return centres[torch.randint(k, (n,), generator=g)] + spread * torch.randn(n, d, generator=g)


def slow_lloyd(z: list[list[float]], centres: list[list[float]]) -> tuple[list[int], list[list[float]], float]:
    """Lloyd's iterations by loops, for starts that empty no cluster."""

    def distance(a: list[float], b: list[float]) -> float:
        return sum((u - v) ** 2 for u, v in zip(a, b, strict=True))

    labels: list[int] = []
    while True:
        new = [min(range(len(centres)), key=lambda c, row=row: distance(row, centres[c])) for row in z]  # type: ignore[misc]
        if new == labels:
            return labels, centres, sum(distance(row, centres[c]) for row, c in zip(z, labels, strict=True))
        labels = new
        for c in range(len(centres)):
            members = [row for row, label in zip(z, labels, strict=True) if label == c]
            centres[c] = [sum(column) / len(members) for column in zip(*members, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_lloyd_equals_a_slow_loop(seed: int) -> None:
    z = blobs(150, k=4, d=3, spread=3.0, seed=seed)
    rows = CentredRows(z, 4)
    start = rows[torch.arange(4)]
    found = lloyd(rows, start, 500)
    labels, centres, potential = slow_lloyd((z - rows.middle).tolist(), start.tolist())
    assert found.labels.tolist() == labels
    torch.testing.assert_close(found.centres, torch.tensor(centres), rtol=1e-4, atol=1e-4)
    assert found.potential == pytest.approx(potential, rel=1e-5)


@pytest.mark.parametrize(("seed", "spread"), [(0, 1.0), (1, 1.0), (2, 3.0), (3, 3.0)])
def test_as_good_as_scikit_learn(seed: int, spread: float, generator: Generator) -> None:
    from sklearn.cluster import KMeans

    z = blobs(seed=seed, spread=spread)
    theirs = KMeans(8, n_init=10, random_state=0).fit(z.numpy()).inertia_
    assert kmeans(z, 8, generator=generator, n_init=10, max_iter=300).potential <= 1.01 * theirs


def check_consistent(z: Tensor, found: Clusters) -> None:
    """Labels are nearest centres, and the potential is what they cost."""
    distance = torch.cdist(z.double(), found.centres.double()).square()
    least = distance.min(dim=1).values
    chosen = distance.gather(1, found.labels[:, None]).squeeze(1)
    scale = float(z.double().square().sum(dim=1).max())
    assert float((chosen - least).max()) <= 1e-5 * scale
    assert found.potential == pytest.approx(float(least.sum()), rel=1e-4, abs=1e-5 * scale)


def test_what_comes_back_is_consistent(generator: Generator) -> None:
    z = blobs()
    for max_iter in (1, 50):
        found = kmeans(z, 12, generator=generator, max_iter=max_iter)
        assert found.centres.shape == (12, 5) and found.centres.dtype == torch.float32
        check_consistent(z, found)


def test_same_generator_same_clusters_and_the_global_one_is_left_alone() -> None:
    z, state = blobs(), torch.get_rng_state()
    first, second = (kmeans(z, 9, generator=Generator().manual_seed(3), n_init=2) for _ in range(2))
    assert torch.equal(first.labels, second.labels) and torch.equal(first.centres, second.centres)
    assert torch.equal(state, torch.get_rng_state())


def test_pieces_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    z = blobs(spread=0.5)
    whole = kmeans(z, 8, generator=Generator().manual_seed(1))
    monkeypatch.setattr(module, "PIECE", 8 * 37)
    pieces = kmeans(z, 8, generator=Generator().manual_seed(1))
    assert torch.equal(whole.labels, pieces.labels)
    assert pieces.potential == pytest.approx(whole.potential, rel=1e-5)


def test_more_starts_are_never_worse() -> None:
    z = blobs(k=20, spread=2.0)
    few, many = (kmeans(z, 20, generator=Generator().manual_seed(0), n_init=n).potential for n in (1, 8))
    assert many <= few


def test_far_from_the_origin_keeps_its_digits() -> None:
    z = blobs(spread=0.5)
    near, far = (kmeans(z + shift, 8, generator=Generator().manual_seed(1)) for shift in (0.0, 1000.0))
    assert torch.equal(near.labels, far.labels)
    assert far.potential == pytest.approx(near.potential, rel=1e-2)


def test_one_cluster_is_the_mean(generator: Generator) -> None:
    z = blobs(50)
    found = kmeans(z, 1, generator=generator)
    torch.testing.assert_close(found.centres[0], z.mean(dim=0))
    assert found.potential == pytest.approx(float((z - z.mean(dim=0)).square().sum()), rel=1e-5)


def test_every_row_its_own_cluster(generator: Generator) -> None:
    z = blobs(30)
    found = kmeans(z, 30, generator=generator)
    assert sorted(found.labels.tolist()) == list(range(30)) and found.potential == 0


@pytest.mark.parametrize("k", [3, 5])
def test_duplicates(k: int, generator: Generator) -> None:
    z = torch.tensor([[0.0, 0.0], [5.0, 1.0], [-3.0, 4.0]]).repeat(20, 1)
    found = kmeans(z, k, generator=generator)  # k = 5 leaves two clusters empty
    assert found.potential == 0 and len(set(found.labels.tolist())) == 3
    assert found.centres.isfinite().all()


def test_all_rows_equal(generator: Generator) -> None:
    found = kmeans(torch.ones(10, 2), 4, generator=generator)
    assert found.potential == 0 and torch.equal(found.centres, torch.ones(4, 2))


def test_empty_clusters_take_the_farthest_rows() -> None:
    labels, distance = torch.tensor([0, 0, 0, 2]), torch.tensor([0.0, 9.0, 4.0, 0.0])
    assert fill_empty(labels, distance, 3).tolist() == [0, 1, 0, 2]
    assert fill_empty(labels, distance, 6)[1:3].tolist() == [1, 3]  # rows at their centre stay
    z = torch.cat([blobs(100, k=1), blobs(100, k=1) + 50])
    rows = CentredRows(z, 3)
    start = torch.stack([rows[torch.tensor(0)], rows[torch.tensor(150)], torch.full((5,), 1e4)])
    found = lloyd(rows, start, 50)  # the third centre starts with no row at all
    assert len(set(found.labels.tolist())) == 3 and math.isfinite(found.potential)


def test_half_and_double_precision_rows(generator: Generator) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        found = kmeans(blobs(100).to(dtype), 4, generator=generator)
        assert found.centres.dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be a whole number from 1 to 10; got 0"),
        ({"k": 11}, "k must be a whole number from 1 to 10; got 11"),
        ({"max_iter": 0}, "max_iter must be a whole number ≥ 1; got 0"),
        ({"n_init": 0}, "n_init must be a whole number ≥ 1; got 0"),
    ],
)
def test_bad_arguments(arguments: dict[str, int], message: str, generator: Generator) -> None:
    with pytest.raises(InputError, match=message):
        kmeans(torch.zeros(10, 2), **{"k": 2, "generator": generator, **arguments})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a matrix"):
        kmeans(torch.zeros(10), 2, generator=generator)


@pytest.mark.cuda
def test_same_on_a_gpu() -> None:
    z = blobs(spread=0.5)
    here = kmeans(z, 8, generator=Generator().manual_seed(1))
    there = kmeans(z.cuda(), 8, generator=Generator().manual_seed(1))
    assert torch.equal(here.labels, there.labels.cpu())
