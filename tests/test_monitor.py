import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.encoders.projection import projection_head
from pucl.training.monitor import (
    ROWS,
    Health,
    alignment,
    complaints,
    effective_rank,
    measure,
    separation,
    uniformity,
)

FINE = Health(alignment=0.5, uniformity=-2.5, rank=40.0, dim=128, separation=0.55, n_held=20, n_seen=80)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def unit(z: Tensor) -> list[list[float]]:
    return [[v / math.sqrt(sum(w * w for w in row)) for v in row] for row in z.tolist()]


def dot(a: list[float], b: list[float]) -> float:
    return sum(v * w for v, w in zip(a, b, strict=True))


def slow_alignment(z1: Tensor, z2: Tensor) -> float:
    pairs = zip(unit(z1), unit(z2), strict=True)
    return sum(sum((v - w) ** 2 for v, w in zip(a, b, strict=True)) for a, b in pairs) / len(z1)


def slow_uniformity(z: Tensor) -> float:
    u = unit(z)
    pairs = [(a, b) for i, a in enumerate(u) for j, b in enumerate(u) if i != j]
    return math.log(
        sum(math.exp(-2 * sum((v - w) ** 2 for v, w in zip(a, b, strict=True))) for a, b in pairs) / len(pairs)
    )


def slow_rank(z: Tensor) -> float:
    sizes = [float(s) for s in torch.linalg.svdvals(z - z.mean(dim=0))]
    shares = [s / sum(sizes) for s in sizes if s > 1e-12 * sizes[0]]
    return math.exp(-sum(p * math.log(p) for p in shares))


def slow_separation(z_seen: Tensor, z_held: Tensor) -> float:
    seen, held = unit(z_seen), unit(z_held)
    won = 0.0
    for i, row in enumerate(seen):
        others = [other for k, other in enumerate(seen) if k != i]
        mean = [sum(column) / len(others) for column in zip(*others, strict=True)]
        for other in held:
            gap = dot(row, mean) - dot(other, mean)
            won += 0.5 if abs(gap) < 1e-12 else float(gap > 0)
    return won / (len(seen) * len(held))


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 8), (30, 5), (7, 7)])
def test_equal_to_loops(n: int, d: int) -> None:
    z1, z2 = draw(n, d), draw(n, d, seed=1)
    assert float(alignment(z1, z2)) == pytest.approx(slow_alignment(z1, z2), rel=1e-12)
    assert float(uniformity(z1)) == pytest.approx(slow_uniformity(z1), rel=1e-12, abs=1e-12)
    assert float(effective_rank(z1)) == pytest.approx(slow_rank(z1), rel=1e-6)
    assert float(separation(z1, draw(4, d, seed=2))) == pytest.approx(slow_separation(z1, draw(4, d, seed=2)))


def test_separation_with_ties_equals_the_loop() -> None:
    modes = torch.eye(3, 4, dtype=torch.float64)
    seen, held = modes[torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])], modes[torch.tensor([0, 1, 1, 2, 2])]
    value = float(separation(seen, held))
    assert value == pytest.approx(slow_separation(seen, held), abs=1e-9)
    assert not float(9 * 5 * value).is_integer(), "no ties in this case"


def test_extremes_by_hand() -> None:
    same, basis = torch.ones(6, 4), torch.eye(5, 8)
    assert float(alignment(same, 3 * same)) == pytest.approx(0, abs=1e-12)
    assert float(alignment(basis, -basis)) == pytest.approx(4)
    assert float(alignment(basis, basis.roll(1, dims=0))) == pytest.approx(2)
    assert float(uniformity(same)) == pytest.approx(0, abs=1e-12)
    assert float(uniformity(basis)) == pytest.approx(-4)
    assert float(effective_rank(same)) == pytest.approx(1)
    assert float(effective_rank(torch.full((9, 3), 0.1))) == pytest.approx(1)
    assert float(effective_rank(basis)) == pytest.approx(4), "five corners of a simplex span four directions evenly"
    assert float(effective_rank(torch.cat([basis, -basis]))) == pytest.approx(5)
    line = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None] * draw(1, 6)
    assert float(effective_rank(line)) == pytest.approx(1, abs=1e-5)


def test_separation_by_hand() -> None:
    here, there = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    assert float(separation(here.expand(9, 2), there.expand(4, 2))) == 1
    assert float(separation(here.expand(9, 2), here.expand(4, 2))) == pytest.approx(0.5), "rows that coincide tie"
    assert float(separation(torch.cat([here, there]), here)) == pytest.approx(0.25), "below one, a tie with the other"


def test_lengths_do_not_matter_where_rows_are_normalised() -> None:
    z1, z2, scale = draw(20, 6), draw(20, 6, seed=1), 10 ** draw(20, 1, seed=2)
    assert torch.allclose(alignment(scale * z1, z2), alignment(z1, z2))
    assert torch.allclose(uniformity(scale * z1), uniformity(z1))
    assert torch.allclose(separation(scale * z1, z2), separation(z1, z2))
    assert measure(scale * z1, z2).rank == pytest.approx(float(effective_rank(F.normalize(z1, dim=1))))


@pytest.mark.parametrize("modes", [1, 5])
def test_separation_is_a_half_on_average_when_labels_leave_no_trace(modes: int) -> None:
    generator = Generator().manual_seed(0)
    values = []
    for _ in range(400):
        z = 0.1 * torch.randn(30, 8, generator=generator)
        z[torch.arange(30), torch.randint(modes, (30,), generator=generator)] += 1
        values.append(float(separation(z[:20], z[20:])))
    found = torch.tensor(values)
    assert abs(float(found.mean()) - 0.5) < 4 * float(found.std()) / math.sqrt(len(found))


def test_cost_is_bounded() -> None:
    z1, z2 = draw(ROWS + 50, 3), draw(ROWS + 50, 3, seed=1)
    z1[ROWS:] = z2[ROWS:] = torch.nan
    health = measure(z1, z2, separation=separation(z1, z2))
    assert health == measure(z1[:ROWS], z2[:ROWS], separation=separation(z1[:ROWS], z2[:ROWS]))
    assert not math.isnan(health.rank + health.uniformity + health.alignment)


def test_measure_collects_everything() -> None:
    z1, z2 = draw(50, 16), draw(50, 16, seed=1)
    health = measure(z1, z2, separation=separation(z1, z2), n_held=50, n_seen=50)
    assert health == Health(
        alignment=float(alignment(z1, z2)),
        uniformity=float(uniformity(z1)),
        rank=pytest.approx(float(effective_rank(F.normalize(z1, dim=1)))),  # type: ignore[arg-type]
        dim=16,
        separation=float(separation(z1, z2)),
        n_held=50,
        n_seen=50,
        rows=50,
    )
    assert measure(z1, z2).separation is None and measure(z1[:5], z2[:5]).dim == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_and_gradients_do_no_harm(dtype: torch.dtype) -> None:
    z1, z2 = (draw(40, 16, seed=seed).to(dtype).requires_grad_() for seed in (0, 1))
    exact = measure(z1.double(), z2.double(), separation=separation(z1.double(), z2.double()))
    with torch.autocast("cpu", torch.bfloat16):
        assert measure(z1, z2, separation=separation(z1, z2)) == exact
    assert not uniformity(z1).requires_grad


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("everywhere", [True, False])
def test_nan_and_infinity_are_survived(bad: float, everywhere: bool) -> None:
    z1, z2 = draw(12, 8), draw(12, 8, seed=1)
    z1[slice(None) if everywhere else 3] = bad
    health = measure(z1, z2, separation=separation(z1, z2), n_held=12)
    assert all(math.isnan(v) for v in (health.alignment, health.uniformity, health.rank))
    assert health.separation is not None and math.isnan(health.separation) and complaints(health) == []
    assert math.isnan(float(effective_rank(z1)))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_rows(n: int) -> None:
    z = draw(n, 8)
    health = measure(z, z, separation=separation(z[:1], z), n_held=n)
    assert complaints(health) == [] and health.dim == max(0, n - 1)
    assert health.separation is not None and math.isnan(health.separation)
    assert math.isnan(float(separation(draw(5, 8), z[:0])))


FUNCTIONS: list[Callable[..., Tensor]] = [
    alignment,
    separation,
    lambda a, _: uniformity(a),
    lambda a, _: effective_rank(a),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=["alignment", "separation", "uniformity", "rank"])
def test_values_are_not_read_on_the_way(function: Callable[..., Tensor]) -> None:
    empty = torch.empty(30, 8, device="meta")  # has no values: whoever reads one, or branches on one, fails
    assert function(empty, empty).shape == ()
    torch.compiler.reset()
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    z1, z2 = draw(30, 8), draw(30, 8, seed=1)
    assert torch.allclose(compiled(z1, z2), function(z1, z2))


@contextmanager
def watch_waits(mode: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # switching the mode on warns that it is a prototype
        torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
def test_one_wait_for_the_gpu() -> None:
    z1, z2 = draw(300, 64).cuda(), draw(300, 64, seed=1).cuda()
    measure(z1, z2, separation=separation(z1, z2))
    with watch_waits("error"):
        alignment(z1, z2), uniformity(z1)
        apart = separation(z1, z2)
    with watch_waits("warn"), pytest.warns(UserWarning, match="synchronizing") as waits:
        found = measure(z1, z2, separation=apart)
    assert len(waits) == 1
    expected = measure(z1.cpu(), z2.cpu(), separation=separation(z1.cpu(), z2.cpu()))
    assert found.rank == pytest.approx(expected.rank) and found.uniformity == pytest.approx(expected.uniformity)
    assert found.alignment == pytest.approx(expected.alignment) and found.separation == expected.separation


def network(columns: int, width: int, *, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = nn.Sequential(nn.Linear(columns, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        return nn.Sequential(encoder, projection_head(64, hidden=64, out=width)).double()


@pytest.mark.parametrize("columns", [1, 2, 64])
@pytest.mark.parametrize("width", [2, 8, 128])
@pytest.mark.parametrize("n", [2, 3, 4, 9, 16, 256])
def test_no_false_alarm_with_random_weights(n: int, width: int, columns: int) -> None:
    for seed in range(5):
        x = draw(n, columns, seed=seed)
        views = torch.cat([x, x + 0.1 * draw(n, columns, seed=seed + 100)])
        with torch.no_grad():
            z1, z2 = network(columns, width, seed=seed)(views).chunk(2)
        assert complaints(measure(z1, z2)) == []


@pytest.mark.parametrize("width", [2, 3, 8, 128])
@pytest.mark.parametrize("n", [3, 4, 16, 2000])
def test_no_false_alarm_for_even_spread_or_classes(n: int, width: int) -> None:
    even = draw(n, width)
    assert complaints(measure(even, even)) == []
    classes = torch.eye(width, dtype=torch.float64)[torch.arange(n) % width] + 0.05 * draw(n, width, seed=1)
    assert complaints(measure(classes, classes)) == []


@pytest.mark.parametrize("width", [2, 8, 128])
@pytest.mark.parametrize("n", [8, 16, 256])
def test_collapse_is_reported(n: int, width: int) -> None:
    z = torch.ones(n, width, dtype=torch.float64) + 0.1 * draw(n, width)
    (line,) = complaints(measure(z, z))
    assert (
        line.startswith("the projections have collapsed: nearly all are the same (uniformity -0.0") and "\n" not in line
    )
    assert complaints(measure(torch.ones(n, width), torch.ones(n, width)))


@pytest.mark.parametrize(("n", "width"), [(16, 8), (256, 128), (16, 128)])
def test_rows_on_a_line_are_reported(n: int, width: int) -> None:
    two_points = torch.where(torch.arange(n)[:, None] % 2 == 0, 1.0, -1.0) * draw(1, width) + 1e-3 * draw(n, width)
    (line,) = complaints(measure(two_points, two_points))
    assert line.startswith("the projections lie along a line: their effective rank is 1.")
    assert f" of {min(width, n - 1)};" in line


@pytest.mark.parametrize(
    ("value", "n_seen", "n_held", "alarm"),
    [
        (0.97, 80, 20, True),
        (0.74, 80, 20, True),
        (0.74, 20, 20, False),  # 2.6 standard deviations
        (0.74, 0, 20, False),  # the same, as the number seen is not told
        (0.85, 0, 20, True),
        (0.69, 9000, 1000, False),  # certain, but small
        (0.71, 9000, 1000, True),
        (1.0, 16, 4, True),
        (0.97, 16, 4, False),
        (1.0, 12, 3, False),  # three rows may well lie apart
        (1.0, 80, 0, False),
        (0.03, 80, 20, False),
    ],
)
def test_labels_learnt_by_heart(value: float, n_seen: int, n_held: int, alarm: bool) -> None:
    found = complaints(replace(FINE, separation=value, n_held=n_held, n_seen=n_seen))
    assert bool(found) is alarm
    if alarm:
        (line,) = found
        assert (
            line.startswith("the encoder memorises which rows are labelled: ")
            and f"{n_held} held out (AUC {value:.2f}" in line
        )


def test_a_healthy_run_is_left_in_peace() -> None:
    assert complaints(FINE) == complaints(replace(FINE, separation=None, n_held=0)) == []
    assert len(complaints(replace(FINE, uniformity=-0.01, rank=1.0, separation=1.0))) == 2, "one line for the collapse"
