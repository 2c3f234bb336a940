"""What every registered objective must satisfy. A new loss file is tested here by existing."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pucl.losses import contrastive_loss, make_objective
from pucl.losses.partition import Implementation
from pucl.registry import entries

from references import LOOPS, VALUES, options, value_batch

LOSSES = entries("losses")
every_loss = pytest.mark.parametrize("name", list(LOSSES))


def batch(n: int = 7, d: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    z1, z2 = (torch.randn(n, d, generator=g, dtype=dtype) for _ in range(2))
    return z1, z2, (torch.arange(n) % 3 == 0)


def loss(name: str, z1: Tensor, z2: Tensor, s: Any, tau: float = 0.5) -> Tensor:
    return contrastive_loss(name, z1, z2, s, temperature=tau, **options(name))


@pytest.mark.parametrize(("name", "given", "value"), [known for known in VALUES if known[0] in LOSSES], ids=str)
def test_published_values(name: str, given: dict[str, Any], value: float) -> None:
    z1, z2, s = value_batch()
    for first, second in ((z1, z2), (z2, z1)):
        assert float(contrastive_loss(name, first, second, s, **given)) == pytest.approx(value, abs=1e-10)


@every_loss
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tau", [0.07, 0.5, 3.0])
def test_equals_the_slow_loop(name: str, seed: int, tau: float) -> None:
    if name not in LOOPS:
        pytest.skip(f"no loop version of {name} in tests/references.py")
    z1, z2, s = batch(seed=seed)
    expected = LOOPS[name](z1, z2, s.int().tolist(), tau, **options(name))
    assert float(loss(name, z1, z2, s, tau)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@every_loss
def test_does_not_depend_on_order_view_or_scale(name: str) -> None:
    z1, z2, s = batch()
    value = float(loss(name, z1, z2, s))
    order = torch.randperm(len(s), generator=torch.Generator().manual_seed(1))
    scale = torch.rand(len(s), 1, dtype=torch.float64) + 0.5
    for other in (loss(name, z1[order], z2[order], s[order]), loss(name, z2, z1, s), loss(name, scale * z1, z2, s)):
        assert float(other) == pytest.approx(value, abs=1e-12)


EDGES = {
    "none labelled": (*batch()[:2], torch.zeros(7, dtype=torch.bool)),
    "one labelled": (*batch()[:2], torch.arange(7) == 3),
    "all labelled": (*batch()[:2], torch.ones(7, dtype=torch.bool)),
    "one pair": (*batch(n=1)[:2], torch.zeros(1, dtype=torch.bool)),
    "one labelled pair": (*batch(n=1)[:2], torch.ones(1, dtype=torch.bool)),
    "duplicates": (torch.ones(7, 5).double(), torch.ones(7, 5).double(), torch.arange(7) < 2),
    "zero rows": (torch.eye(7, 5).double(), torch.eye(7, 5).double().flip(0), torch.arange(7) % 2 == 0),
    "opposite views": (torch.ones(7, 5).double(), -torch.ones(7, 5).double(), torch.arange(7) < 2),
}


@pytest.mark.slow
@every_loss
@pytest.mark.parametrize("tau", [0.005, 0.01, 0.5, 10.0])
@pytest.mark.parametrize("implementation", ["plain", "tiled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("edge", EDGES)
def test_edge_batches_are_finite(
    name: str, edge: str, dtype: torch.dtype, implementation: Implementation, tau: float
) -> None:
    first, second, s = EDGES[edge]
    z1, z2 = (z.to(dtype).requires_grad_() for z in (first, second))
    value = contrastive_loss(name, z1, z2, s, temperature=tau, implementation=implementation, **options(name))
    value.backward()  # type: ignore[no-untyped-call]
    assert value.isfinite()
    assert z1.grad is not None and z1.grad.isfinite().all()
    assert z2.grad is not None and z2.grad.isfinite().all()


@every_loss
@pytest.mark.parametrize("labelled", [[0, 0, 0], [1, 0, 1], [1, 1, 1]])
def test_gradient_is_that_of_the_value(name: str, labelled: list[int]) -> None:
    z1, z2, _ = batch(n=3, d=4)
    s = torch.tensor(labelled).bool()
    objective = make_objective(name, temperature=0.4, **options(name))
    inputs = (z1.requires_grad_(), z2.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: objective(a, b, s), inputs)


@pytest.mark.slow
@every_loss
def test_same_under_compile(name: str) -> None:
    z1, z2, s = batch(dtype=torch.float32)
    objective = make_objective(name, **options(name))
    compiled = torch.compile(lambda a, b: objective(a, b, s), backend="aot_eager", fullgraph=True)
    assert float(compiled(z1, z2)) == pytest.approx(float(objective(z1, z2, s)), rel=1e-6)


@every_loss
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float16, 2e-3)])
def test_lower_precision_is_close(name: str, dtype: torch.dtype, tolerance: float) -> None:
    z1, z2, s = batch(n=64, d=16)
    value = loss(name, z1.to(dtype), z2.to(dtype), s)
    assert float(value) == pytest.approx(float(loss(name, z1, z2, s)), rel=tolerance)


@pytest.mark.parametrize(("name", "given"), [("pucl", {}), ("punce", {}), ("punce", {"variant": "released"})])
@pytest.mark.parametrize("implementation", ["plain", "tiled"])
def test_without_labelled_rows_it_is_sscl_to_the_bit(
    name: str, given: dict[str, Any], implementation: Implementation
) -> None:
    if not {name, "sscl"} <= set(LOSSES):
        pytest.skip("needs both losses")
    z1, z2, _ = batch(dtype=torch.float32)
    values, gradients = [], []
    for which, extra in ((name, given | options(name)), ("sscl", {})):
        a, b = (z.clone().requires_grad_() for z in (z1, z2))
        value = contrastive_loss(which, a, b, [0] * 7, implementation=implementation, **extra)
        values.append(value.detach())
        gradients.append(torch.cat(torch.autograd.grad(value, (a, b))))
    assert torch.equal(values[0], values[1]) and torch.equal(gradients[0], gradients[1])


Z = torch.randn(4, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0}, "temperature must be a finite number > 0; got 0"),
        ({"temperature": float("nan")}, "temperature must be a finite number > 0; got nan"),
        ({"prior": 1.0}, "prior must be a number strictly between 0 and 1; got 1.0"),
        ({"s": [1, 0]}, "s must be of length 4, one label per row; got length 2"),
        ({"s": [1, 0, 2, 0]}, "s must be 1 (labelled positive) and 0"),
        ({"z2": Z[:3]}, "z2 must be of the same shape as z1"),
        ({"z2": Z.double()}, "z2 must be of the same dtype as z1"),
        (
            {"z1": Z.where(torch.arange(4)[:, None] != 2, torch.nan)},
            "z1 must be finite; got NaN or infinity in 1 rows, first 2, column 0",
        ),
        ({"z1": Z[0], "z2": Z[0]}, "z1 must be a floating-point tensor of shape (n, d)"),
        ({"name": "dcl"}, "pucl.contrastive_loss('dcl'): prior must be a number strictly between 0 and 1; got None"),
        ({"name": "punce", "prior": 0}, "prior must be a number strictly between 0 and 1; got 0"),
        ({"name": "punce", "prior": 0.3, "variant": "mine"}, "unknown variant of punce 'mine'"),
        ({"name": "mcl"}, "pucl.contrastive_loss('mcl'): mixing must be a number within [0, 1]; got None"),
        ({"name": "mcl", "mixing": 1.5}, "mixing must be a number within [0, 1]; got 1.5"),
        ({"temprature": 1}, "unknown option of pucl 'temprature': did you mean 'temperature'?"),
        ({"implementation": "tilde"}, "unknown implementation 'tilde': did you mean 'tiled'?"),
        (
            {"implementation": "fused"},
            "float32 of width ≤ 256 on a CUDA device with Triton for 'fused'; got torch.float",
        ),
        ({"z2": Z.to("meta")}, "z2 must be of the same device as z1 (cpu); got meta"),
        ({"name": "pucll"}, "unknown loss 'pucll': did you mean 'pucl'?"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    call = {"name": "pucl", "z1": Z, "z2": Z, "s": [1, 0, 0, 1], **change}
    with pytest.raises(ValueError, match=".") as caught:
        contrastive_loss(call.pop("name"), call.pop("z1"), call.pop("z2"), call.pop("s"), **call)
    assert message in str(caught.value)
