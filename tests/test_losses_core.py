"""The shared core of the objectives: implementations agree, gradients are the paper's, processes add up."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.losses import contrastive_loss, make_objective
from pucl.losses.kernels import tiled
from pucl.losses.pairs import Pairs
from pucl.losses.partition import Implementation, log_partition
from pucl.registry import entries

from references import options

LOSSES = list(entries("losses"))


def batch(n: int, d: int = 16, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = Generator().manual_seed(seed)
    z1, z2 = (torch.randn(n, d, generator=g, dtype=dtype) for _ in range(2))
    return z1, z2, torch.rand(n, generator=g) < 0.3


def value_and_gradient(
    name: str, z1: Tensor, z2: Tensor, s: Tensor, implementation: Implementation, tau: float = 0.5
) -> tuple[Tensor, Tensor]:
    first, second = (z.clone().requires_grad_() for z in (z1, z2))
    value = contrastive_loss(name, first, second, s, temperature=tau, implementation=implementation, **options(name))
    return value.detach(), torch.cat(torch.autograd.grad(value, (first, second)))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("tau", [0.01, 0.07, 0.5])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_tiled_equals_plain(name: str, n: int, tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "TILE", 16)  # several tiles, the last one ragged
    z1, z2, s = batch(n)
    plain, plain_gradient = value_and_gradient(name, z1, z2, s, "plain", tau)
    value, gradient = value_and_gradient(name, z1, z2, s, "tiled", tau)
    assert float(value) == pytest.approx(float(plain), rel=1e-12, abs=1e-12)
    assert torch.allclose(gradient, plain_gradient, rtol=1e-9, atol=1e-12)


def test_tiled_with_the_tile_of_every_day() -> None:
    z1, z2, s = batch(700, dtype=torch.float32)
    plain, plain_gradient = value_and_gradient("pucl", z1, z2, s, "plain")
    value, gradient = value_and_gradient("pucl", z1, z2, s, "auto")
    assert float(value) == pytest.approx(float(plain), rel=1e-6)
    assert torch.allclose(gradient, plain_gradient, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("scale", [2.0, 100.0])
def test_backward_counts_every_row_once(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Any weights on the anchors, not only the equal ones of a mean.
    monkeypatch.setattr(tiled, "TILE", 7)
    z = F.normalize(torch.randn(20, 4, dtype=torch.float64, generator=Generator().manual_seed(0)), dim=1)
    weights = torch.randn(20, dtype=torch.float64, generator=Generator().manual_seed(1))

    def gradient(implementation: Implementation) -> Tensor:
        leaf = z.clone().requires_grad_()
        value = log_partition(leaf, 1 / scale, implementation=implementation) @ weights
        return torch.autograd.grad(value, leaf)[0]

    assert torch.allclose(gradient("tiled"), gradient("plain"), rtol=1e-9, atol=1e-12)


def test_gradcheck_of_the_tiled_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "TILE", 3)
    z1, z2, s = batch(4, d=3)
    objective = make_objective("pucl", implementation="tiled")
    assert torch.autograd.gradcheck(lambda a, b: objective(a, b, s), (z1.requires_grad_(), z2.requires_grad_()))


@pytest.mark.parametrize("implementation", ["plain", "tiled"])
@pytest.mark.parametrize("name", LOSSES)
def test_torch_func_gradient(name: str, implementation: Implementation) -> None:
    z1, z2, s = batch(6)
    objective = make_objective(name, implementation=implementation, **options(name))
    found = torch.func.grad(lambda a: objective(a, z2, s))(z1)
    _, expected = value_and_gradient(name, z1, z2, s, "plain")
    assert torch.allclose(found, expected[:6], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_tiled_compiles_whole(name: str) -> None:
    z1, z2, s = batch(300, dtype=torch.float32)
    objective = make_objective(name, implementation="tiled", **options(name))
    compiled = torch.compile(lambda a, b: objective(a, b, s), backend="aot_eager", fullgraph=True)
    leaf = z1.clone().requires_grad_()
    value = compiled(leaf, z2)
    (found,) = torch.autograd.grad(value, leaf)
    expected, gradient = value_and_gradient(name, z1, z2, s, "plain")
    assert float(value.detach()) == pytest.approx(float(expected), rel=1e-5)
    assert torch.allclose(found, gradient[:300], rtol=1e-3, atol=1e-7)


def test_autocast_does_not_touch_the_precision() -> None:
    z1, z2, s = batch(50, dtype=torch.float32)
    expected = contrastive_loss("pucl", z1, z2, s)
    with torch.autocast("cpu", dtype=torch.float16):
        assert torch.equal(contrastive_loss("pucl", z1, z2, s), expected)


@pytest.mark.parametrize("name", ["sscl", "pucl", "scl"])
def test_gradient_is_the_closed_form_of_the_paper(name: str) -> None:
    """sec:proof.gradient, with 1/|P \\ i| (the 1/|P| of the main text is a slip)."""
    n, tau = 9, 0.4
    z1, z2, s = batch(n, d=5)
    z = F.normalize(torch.cat([z1, z2]), dim=1).requires_grad_()
    labelled = torch.cat([s, s])
    losses = entries("losses")[name].function(Pairs(z, z.roll(n, 0), labelled, z.dtype), temperature=tau)
    for i in range(2 * n):
        similarity = (z.detach() @ z.detach()[i]) / tau
        similarity[i] = float("-inf")
        p = similarity.softmax(0)  # P_ij, zero at j = i
        if name == "sscl" or (name == "pucl" and not labelled[i]):
            attracting = torch.arange(2 * n) == (i + n) % (2 * n)
        else:
            attracting = (labelled == labelled[i]) & (torch.arange(2 * n) != i)
        expected = -((attracting.double() / attracting.sum() - p) @ z.detach()) / tau
        (found,) = torch.autograd.grad(losses[i], z, retain_graph=True)
        assert torch.allclose(found[i], expected, rtol=1e-10, atol=1e-12)


def test_a_row_of_zeros_gets_a_gradient_of_ordinary_size() -> None:
    z1, z2, s = batch(6, dtype=torch.float32)
    z1[2] = 0
    _, gradient = value_and_gradient("pucl", z1, z2, s, "plain")
    assert gradient.isfinite().all() and 0 < gradient[2].norm() < 10 * gradient[3].norm() * z1[3].norm()


TWO_PROCESSES = """
import os, sys, time, torch, torch.distributed as dist
from pucl.losses import contrastive_loss
from pucl.registry import entries
from references import options
rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if world > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
out = {}
for labels in ("spread", "one side"):
    g = torch.Generator().manual_seed(0)
    z1, z2 = torch.randn(24, 8, generator=g), torch.randn(24, 8, generator=g)
    s = torch.arange(24) % 3 == 0 if labels == "spread" else torch.arange(24) < 5
    own = slice(rank * 24 // world, (rank + 1) * 24 // world)
    for name in entries("losses"):
        a, b = (z[own].clone().requires_grad_() for z in (z1, z2))
        value = contrastive_loss(name, a, b, s[own], temperature=0.3, gather_distributed=True, **options(name))
        value.backward()
        out[labels, name] = (value.detach(), a.grad, b.grad)
if world > 1:
    try:
        contrastive_loss("sscl", z1[: rank + 2], z2[: rank + 2], [0] * (rank + 2), gather_distributed=True)
    except ValueError as error:
        out["error"] = str(error)
    time.sleep(0.05)  # as `pucl.distributed.joined` does
    dist.destroy_process_group()
torch.save(out, f"{folder}/out{rank}.pt")
"""


def run_processes(folder: Path, world: int) -> list[Any]:
    command = [sys.executable, "-c", TWO_PROCESSES]
    here = Path(__file__).parent  # where references.py is found
    runs = [subprocess.Popen([*command, str(rank), str(world), str(folder)], cwd=here) for rank in range(world)]
    assert [run.wait(timeout=120) for run in runs] == [0] * world
    return [torch.load(folder / f"out{rank}.pt") for rank in range(world)]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (whole,), halves = run_processes(tmp_path / "one", 1), run_processes(tmp_path / "two", 2)
    for key, (value, *gradients) in whole.items():
        for half in halves:
            assert float(half[key][0]) == pytest.approx(float(value), abs=1e-6), key
        for view, gradient in enumerate(gradients, start=1):
            found = torch.cat([half[key][view] for half in halves])
            assert float((found - gradient).norm() / gradient.norm()) < 1e-5, key
    for half in halves:
        assert "z1 must be of the same length on every process; got lengths [2, 3]" in half["error"]
