"""Batch norm with residual and ReLU: plain on a CPU, and the Triton kernels against float64.

The kernels run on a GPU, or anywhere in Triton's interpreter (TRITON_INTERPRET=1), which is slow: smaller maps there.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.encoders import make_encoder
from pucl.encoders import norm as norms
from pucl.encoders.norm import HAS_TRITON, NormReLU
from pucl.encoders.stem import StemConvolution

CUDA = torch.cuda.is_available()
INTERPRETED = not CUDA and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if CUDA else "cpu"
Test = Callable[..., None]
Results = dict[str, Tensor]


def needs_cuda(test: Test) -> Test:
    return pytest.mark.cuda(pytest.mark.skipif(not HAS_TRITON, reason="needs Triton")(test))


def needs_kernels(test: Test) -> Test:
    """Triton on a CUDA device, or its interpreter."""
    return test if INTERPRETED and HAS_TRITON else needs_cuda(test)


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = Generator(DEVICE).manual_seed(seed)
    return torch.randn(*shape, generator=generator, device=DEVICE).to(dtype)


def maps(n: int, c: int, h: int, w: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return noise(n, c, h, w, seed=seed, dtype=dtype).contiguous(memory_format=torch.channels_last)


def layer(c: int, *, relu: bool = True, dtype: torch.dtype = torch.float32) -> NormReLU:
    """A layer whose numbers are all its own; with `dtype` float64 the same numbers more precisely."""
    out = NormReLU(c, relu=relu).to(DEVICE)
    with torch.no_grad():
        for seed, values in enumerate((out.norm.weight, out.norm.bias, out.norm.running_mean)):
            assert values is not None
            values.copy_(noise(c, seed=seed + 10) + (1 if seed == 0 else 0))
        assert out.norm.running_var is not None
        out.norm.running_var.copy_(noise(c, seed=13).square() + 0.1)
    return out.to(dtype)


def run(module: NormReLU, x: Tensor, residual: Tensor | None, grads: tuple[Tensor, ...], *, fused: bool) -> Results:
    """Output, all gradients for one or two incoming ones, and the running statistics after one step."""
    x = x.detach().requires_grad_()
    residual = None if residual is None else residual.detach().requires_grad_()
    outputs = module._fused(x, residual) if fused else (module._plain(x, residual),) * 2
    leaves = [leaf for leaf in (x, module.norm.weight, module.norm.bias, residual) if leaf is not None]
    found = torch.autograd.grad(outputs[: len(grads)], leaves, grads)
    norm = module.norm
    assert norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None
    named = dict(zip(("dx", "dw", "db", "dr"), found, strict=False))
    kept = {"mean": norm.running_mean, "variance": norm.running_var, "tracked": norm.num_batches_tracked}
    return {"out": outputs[-1].detach(), **named, **kept}


def distance(found: Tensor, expected: Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


def compare(found: Results, expected: Results, tolerance: float) -> None:
    assert found.keys() == expected.keys()
    apart = {name: distance(found[name], expected[name]) for name in found}
    assert all(value < tolerance for value in apart.values()), apart
    assert found["tracked"] == expected["tracked"]


# The plain version, on any machine


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_equals_batch_norm_and_relu(relu: bool, residual: bool, training: bool) -> None:
    module, reference = layer(7, relu=relu).cpu().train(training), layer(7).cpu().norm.train(training)
    x, r = maps(5, 7, 3, 4).cpu(), maps(5, 7, 3, 4, seed=1).cpu()
    expected = reference(x) + r if residual else reference(x)
    assert torch.equal(module(x, r if residual else None), F.relu(expected) if relu else expected)
    for name, value in reference.named_buffers():
        assert torch.equal(value, module.norm.get_buffer(name))
    assert int(reference.get_buffer("num_batches_tracked")) == int(training)


def test_both_uses_of_the_fork_count() -> None:
    module = layer(7).cpu()
    x, r, one, two = (maps(5, 7, 3, 4, seed=seed).cpu() for seed in range(4))
    leaves = [x.requires_grad_(), r.requires_grad_(), *module.parameters()]
    out = module(x, r)
    expected = torch.autograd.grad((out * one).sum() + (out * two).sum(), leaves)
    first, second = module.forward_twice(x, r)
    assert torch.equal(first, out) and torch.equal(second, out)
    found = torch.autograd.grad((first * one).sum() + (second * two).sum(), leaves)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_shows_whether_there_is_a_relu() -> None:
    assert "relu=False" in repr(NormReLU(3, relu=False)) and "relu" not in repr(NormReLU(3)).replace("NormReLU", "")
    assert [name for name, _ in NormReLU(3).named_parameters()] == ["norm.weight", "norm.bias"]


# The kernels


@pytest.fixture(autouse=True)
def _float32_is_float32() -> Iterator[None]:
    """Convolutions of PyTorch take float32 for TF32 unless told otherwise."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


SIZES = [(3, 1, 1), (5, 3, 7), (16, 8, 8)] if INTERPRETED else [(3, 1, 1), (5, 3, 7), (33, 17, 31), (16, 32, 32)]
CASES = [(False, 1, True), (True, 1, True), (False, 2, True), (True, 2, True), (False, 1, False), (True, 2, False)]


@needs_kernels
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(("residual", "uses", "relu"), CASES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("c", [1, 10, 64, 96, 128, 192, 256, 512] + ([] if INTERPRETED else [77, 2048]))
def test_kernels_equal_float64(
    c: int, size: tuple[int, int, int], residual: bool, uses: int, relu: bool, dtype: torch.dtype, tolerance: float
) -> None:
    n, h, w = size
    if n * h * w < 4:  # with so few rows x̂ barely depends on x: what is left of dx are rounding errors
        tolerance *= 100
    x = maps(n, c, h, w, dtype=dtype) * 2 + 1
    r = maps(n, c, h, w, seed=1, dtype=dtype) if residual else None
    grads = tuple(maps(n, c, h, w, seed=2 + use, dtype=dtype) for use in range(uses))
    found = run(layer(c, relu=relu), x, r, grads, fused=True)
    assert found["out"].dtype == found["dx"].dtype == dtype and found["dw"].dtype == torch.float32
    assert found["out"].is_contiguous(memory_format=torch.channels_last)
    # The reference lets through where the kernels did: at a sign lost to rounding, a whole gradient would differ.
    wide = layer(c, relu=False, dtype=torch.float64)
    through = (found["out"] > 0).double() if relu else 1.0
    expected = run(wide, x.double(), None if r is None else r.double(), (sum(grads).double() * through,), fused=False)  # type: ignore[union-attr]
    if relu:
        expected["out"] = F.relu(expected["out"])
    compare(found, expected, tolerance)


@needs_kernels
@pytest.mark.parametrize("size", [(7, 5, 5), (32, 8, 8)], ids=str)
def test_a_mean_far_from_zero_leaves_the_variance_accurate(size: tuple[int, int, int]) -> None:
    n, h, w = size
    x = maps(n, 64, h, w) + 1000
    x[0] += 100  # an outlier in the places that the sums are shifted by
    module, wide = layer(64), layer(64, dtype=torch.float64)
    found, expected = (run(m, v, None, (v,), fused=m is module) for m, v in ((module, x), (wide, x.double())))
    for name in ("mean", "variance"):
        assert distance(found[name], expected[name]) < 1e-5
    assert distance(found["out"], expected["out"]) < 1e-3  # 1000 itself is known to 6e-5 only


@needs_kernels
def test_a_constant_channel_and_a_broken_one() -> None:
    x = maps(8, 64, 4, 4)
    x[:, 3], x[2, 5, 1, 1] = 3.5, float("nan")
    found = run(layer(64), x, None, (x.nan_to_num(),), fused=True)
    broken = torch.arange(64, device=DEVICE) == 5
    assert found["out"].isnan().any(0).any(-1).any(-1).equal(broken)
    assert found["out"][:, 5].isnan().all() and found["dx"][:, ~broken].isfinite().all()
    constant = F.relu(layer(64).norm.bias[3]).expand_as(found["out"][:, 3])
    assert torch.allclose(found["out"][:, 3], constant, atol=1e-5)


@needs_kernels
def test_kernels_are_deterministic() -> None:
    n, side = (8, 8) if INTERPRETED else (256, 16)
    x, r, one, two = (maps(n, 128, side, side, seed=seed, dtype=torch.bfloat16) for seed in range(4))
    first, again = (run(layer(128), x, r, (one, two), fused=True) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


@needs_kernels
@pytest.mark.parametrize("residual", [True, False])
def test_one_use_of_the_fork_is_enough(residual: bool) -> None:
    x, r, g = (maps(6, 10, 5, 5, seed=seed) for seed in range(3))
    outputs, grads = [], []
    for use in (0, 1):
        leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
        pair = layer(10)._fused(leaf, r if residual else None)
        assert pair[0].data_ptr() == pair[1].data_ptr()
        outputs.append(pair[use].detach())
        grads.append(torch.autograd.grad(pair[use], leaf, g.contiguous())[0])  # an order of memory of its own
    assert torch.equal(*outputs) and torch.equal(*grads)


@needs_kernels
def test_parameters_alone_and_no_gradient_at_all() -> None:
    x, module = maps(6, 10, 5, 5), layer(10)
    module._fused(x, None)[0].square().sum().backward()  # type: ignore[no-untyped-call]
    assert module.norm.weight.grad is not None and x.grad is None
    with torch.no_grad():
        assert not module._fused(x, None)[0].requires_grad


# On a GPU only


@needs_cuda
def test_when_the_kernels_are_used() -> None:
    x, module = maps(4, 8, 6, 6), layer(8)
    assert module._fast(x, None) and module._fast(x, x) and module._fast(x.bfloat16(), None)
    assert not module._fast(x.contiguous(), None) and not module._fast(x, x.contiguous())
    assert not module._fast(x.double(), None) and not module._fast(x, x.bfloat16())
    assert not module.eval()._fast(x, None) and module.train()._fast(x, None)
    assert not module._fast(x[:1, :, :1, :1], None)  # PyTorch refuses one value per channel
    module.norm.__class__ = nn.SyncBatchNorm  # type: ignore[assignment]  # as over several processes
    assert not module._fast(x, None)
    cumulative = layer(8)
    cumulative.norm.momentum = None
    assert not cumulative._fast(x, None)


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_types_under_autocast(dtype: torch.dtype) -> None:
    conv, module = nn.Conv2d(8, 16, 3).cuda().to(memory_format=torch.channels_last), layer(16)  # type: ignore[call-overload]
    with torch.autocast("cuda", dtype):
        x = conv(maps(4, 8, 6, 6))
        out = module(x)
    assert x.dtype == out.dtype == dtype
    out.float().sum().backward()
    assert module.norm.weight.grad is not None and module.norm.weight.grad.dtype == torch.float32


@needs_cuda
def test_captured_in_a_graph() -> None:
    places = [maps(64, 64, 8, 8, seed=seed, dtype=torch.bfloat16) for seed in range(4)]
    x, r = (place.requires_grad_() for place in places[:2])
    module = layer(64)
    results: list[Tensor] = []

    def step() -> None:
        pair = module.forward_twice(x, r)
        gradients = torch.autograd.grad(pair, [x, r, *module.parameters()], places[2:])
        results[:] = [*(part.detach() for part in pair), *gradients]  # no node of one stream lives on in another

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    fresh = [maps(64, 64, 8, 8, seed=seed + 50, dtype=torch.bfloat16) for seed in range(4)]
    with torch.no_grad():
        for place, values in zip(places, fresh, strict=True):
            place.copy_(values)
    graph.replay()
    torch.cuda.synchronize()
    expected = run(layer(64), fresh[0], fresh[1], (fresh[2], fresh[3]), fused=True)
    for name, found in zip(("out", "out", "dx", "dr", "dw", "db"), results, strict=True):
        assert torch.equal(found, expected[name])
    assert int(module.norm.get_buffer("num_batches_tracked")) == 2  # capturing itself computes nothing


def step_of(name: str, dtype: torch.dtype | None, patch: pytest.MonkeyPatch, *, fused: bool, bias: float) -> Results:
    """Output and gradients of one step; the norms' biases are ±`bias`, by turns."""
    network: Any = make_encoder(name, (3, 32, 32), seed=1).cuda().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.bias[0::2], bias)
            nn.init.constant_(module.bias[1::2], -bias)
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        patch.setattr(norms, "HAS_TRITON", fused)
        z = network(maps(64, 3, 32, 32).abs())
    (z.float() * noise(*z.shape, seed=5)).sum().backward()
    gradients = {key: value.grad for key, value in network.named_parameters()}
    return {"z": z.detach(), **gradients, **{f"kept {key}": value for key, value in network.named_buffers()}}


networks = pytest.mark.parametrize("name", ["resnet18", "resnet50", "cnn7bn", "cnn13"])


@needs_cuda
@networks
def test_whole_networks_agree_in_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # With a bias far from zero no sign depends on a rounding error; every second channel is cut off by its ReLU.
    found, expected = (step_of(name, None, monkeypatch, fused=fused, bias=5.0) for fused in (True, False))
    largest = max(float(value.norm()) for key, value in expected.items() if not key.startswith(("kept", "z")))
    for key, value in expected.items():
        apart = float((found[key].double() - value.double()).norm())
        assert apart < 1e-3 * float(value.double().norm()) or apart < 1e-5 * largest, key


@needs_cuda
@networks
def test_whole_networks_are_as_precise_in_bfloat16(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, plain, fused = (
        step_of(name, dtype, monkeypatch, fused=fused, bias=0.0)
        for dtype, fused in ((None, False), (torch.bfloat16, False), (torch.bfloat16, True))
    )
    gradients = [key for key in exact if not key.startswith(("kept", "z"))]
    for keys in (["z"], gradients):
        whole, *both = (torch.cat([r[key].double().flatten() for key in keys]) for r in (exact, plain, fused))
        usual, found = (distance(vector, whole) for vector in both)
        assert found < 1.3 * usual + 0.01


@needs_cuda
def test_stem_filled_up_with_zeros_is_the_same_convolution() -> None:
    conv = StemConvolution(3, 16, 3, padding=1).cuda()
    x, g = maps(4, 3, 9, 9), maps(4, 16, 9, 9, seed=1, dtype=torch.bfloat16)
    with torch.autocast("cuda", torch.bfloat16):
        pair = conv(x), nn.Conv2d.forward(conv, x)
    assert pair[0].dtype == torch.bfloat16 and pair[0].is_contiguous(memory_format=torch.channels_last)
    assert distance(pair[0], pair[1].double()) < 1e-2
    for found, expected in zip(*(torch.autograd.grad(out, list(conv.parameters()), g) for out in pair), strict=True):
        assert found.shape == expected.shape and distance(found, expected.double()) < 1e-2
    assert torch.equal(conv(x), nn.Conv2d.forward(conv, x))
