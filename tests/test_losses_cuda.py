"""The fused kernel against the plain version, on a GPU."""

import pytest
import torch
from torch import Generator, Tensor

from pucl.losses import contrastive_loss, make_objective
from pucl.losses.pairs import Pairs
from pucl.losses.partition import HAS_TRITON, Implementation
from pucl.registry import entries, get

from references import options

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not HAS_TRITON, reason="needs Triton")]

LOSSES = list(entries("losses"))
EPS = torch.finfo(torch.float32).eps


def batch(n: int, d: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = Generator(device="cuda").manual_seed(seed)
    z1, z2 = (torch.randn(n, d, generator=g, device="cuda").to(dtype) for _ in range(2))
    return z1, z2, torch.rand(n, generator=g, device="cuda") < 0.3


def value_and_gradient(
    name: str, z1: Tensor, z2: Tensor, s: Tensor, tau: float, implementation: Implementation
) -> tuple[float, Tensor]:
    a, b = (z.clone().requires_grad_() for z in (z1, z2))
    value = contrastive_loss(name, a, b, s, temperature=tau, implementation=implementation, **options(name))
    grown = 4096 * value  # as a gradient scaler does: gradients of this size are subnormal in float16
    return float(value.detach()), torch.cat(torch.autograd.grad(grown, (a, b))).double() / 4096


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


class Rounded(Pairs):
    """Pairs whose log Z is off by one unit in the last place of float32, up or down."""

    def log_partition(self, temperature: float) -> Tensor:
        exact = super().log_partition(temperature)
        up = torch.rand(len(exact), generator=Generator().manual_seed(0)) < 0.5
        return exact + torch.where(up.to(exact.device), EPS, -EPS) * exact.detach().abs()


def gradient_of(kind: type[Pairs], name: str, z1: Tensor, z2: Tensor, s: Tensor, tau: float) -> Tensor:
    a, b = (z.double().requires_grad_() for z in (z1, z2))
    value = get("losses", name).function(kind.of(a, b, s, "plain"), temperature=tau, **options(name)).mean()
    return torch.cat(torch.autograd.grad(value, (a, b)))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("tau", [0.01, 0.07, 0.5])
@pytest.mark.parametrize(("n", "d"), [(1, 8), (37, 20), (700, 128), (300, 200)])
def test_fused_equals_plain_in_float32(name: str, n: int, d: int, tau: float) -> None:
    z1, z2, s = batch(n, d, torch.float32)
    expected, gradient = value_and_gradient(name, z1.double(), z2.double(), s, tau, "plain")
    value, found = value_and_gradient(name, z1, z2, s, tau, "fused")
    # Similarities reach 1/τ, and the loss is a difference of such: that many units in the last place of float32.
    assert value == pytest.approx(expected, rel=2e-6, abs=2e-6 + 8 * EPS / tau)
    # dCL subtracts Nπe^p from Z. A row where that nearly cancels has a gradient of 1/(what is left), which the rounding
    # of log Z to float32 changes in any implementation; it changes no gradient of the others.
    unit = distance(gradient_of(Rounded, name, z1, z2, s, tau), gradient) if name == "dcl" else 0.0
    assert distance(found, gradient) < 1e-4 + 3 * unit or float(gradient.norm()) < 1e-6


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("dtype", "loss_tolerance"), [(torch.bfloat16, 5e-3), (torch.float16, 1e-3)])
def test_fused_in_lower_precision(name: str, dtype: torch.dtype, loss_tolerance: float) -> None:
    z1, z2, s = batch(700, 128, dtype)
    expected, gradient = value_and_gradient(name, z1.double(), z2.double(), s, 0.5, "plain")
    value, found = value_and_gradient(name, z1, z2, s, 0.5, "fused")
    assert value == pytest.approx(expected, rel=loss_tolerance)
    assert distance(found, gradient) < 1e-2


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("tau", [0.005, 0.5, 10.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("edge", ["none labelled", "one labelled", "all labelled", "duplicates", "zero rows"])
def test_edge_batches_are_finite(name: str, edge: str, dtype: torch.dtype, tau: float) -> None:
    z1, z2, s = batch(70, 24, dtype)
    if edge == "duplicates":
        z1, z2 = torch.ones_like(z1), torch.ones_like(z2)
    if edge == "zero rows":
        z1[::2] = 0
        z2[5] = 0
    if edge.endswith("labelled"):
        s = torch.arange(70, device="cuda") < {"none": 0, "one": 1, "all": 70}[edge.split(maxsplit=1)[0]]
    value, gradient = value_and_gradient(name, z1, z2, s, tau, "fused")
    assert torch.tensor(value).isfinite() and gradient.isfinite().all()


def test_fused_is_deterministic_and_the_default() -> None:
    z1, z2, s = batch(3000, 128, torch.bfloat16)
    first, again = (value_and_gradient("pucl", z1, z2, s, 0.5, "fused") for _ in range(2))
    default = value_and_gradient("pucl", z1, z2, s, 0.5, "auto")
    assert first[0] == again[0] == default[0] and torch.equal(first[1], again[1]) and torch.equal(first[1], default[1])


@pytest.mark.filterwarnings("default")  # the compiler itself uses what PyTorch calls deprecated
@pytest.mark.parametrize("name", LOSSES)
def test_fused_compiles_whole(name: str) -> None:
    z1, z2, s = batch(512, 128, torch.bfloat16)
    objective = make_objective(name, **options(name))
    compiled = torch.compile(objective, fullgraph=True)
    leaf = z1.clone().requires_grad_()
    value = compiled(leaf, z2, s)
    (gradient,) = torch.autograd.grad(value, leaf)
    expected, whole = value_and_gradient(name, z1, z2, s, 0.5, "fused")
    assert float(value.detach()) == pytest.approx(expected, rel=1e-4)
    assert distance(gradient.double(), whole[:512]) < 1e-2


def test_autocast_leaves_it_alone() -> None:
    z1, z2, s = batch(512, 128, torch.float32)
    expected = contrastive_loss("pucl", z1, z2, s)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.equal(contrastive_loss("pucl", z1, z2, s), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_131072_pairs_fit_in_4_gb(dtype: torch.dtype) -> None:
    z1, z2, s = batch(131_072, 128, dtype)
    z1, z2 = z1.requires_grad_(), z2.requires_grad_()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    value = make_objective("pucl")(z1, z2, s)
    value.backward()  # type: ignore[no-untyped-call]
    assert value.isfinite() and z1.grad is not None and z1.grad.isfinite().all()
    assert torch.cuda.max_memory_allocated() - before < 4 * 2**30
