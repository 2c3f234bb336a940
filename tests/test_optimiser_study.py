"""studies/optimisers.py: its LARS against a loop over tensors, its other head, and a run from start to line."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

SCRIPT = Path(__file__).parents[1] / "studies" / "optimisers.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("optimiser_study", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def one_tensor(
    w: Tensor, g: Tensor, v: Tensor, *, lr: float, nesterov: bool, scaled: bool, beta: float, m: float, eta: float
) -> tuple[Tensor, Tensor]:
    """A step of one tensor, number by number."""
    size = sum(float(x) ** 2 for x in w.flatten()) ** 0.5
    slope = sum(float(x) ** 2 for x in g.flatten()) ** 0.5
    ratio, decay = 1.0, 0.0
    if scaled and size > 0 and slope > 0:
        ratio, decay = eta * size / (slope + beta * size + 1e-8), beta
    w, v = w.clone(), v.clone()
    for i in range(w.numel()):
        d = ratio * (float(g.flatten()[i]) + decay * float(w.flatten()[i]))
        v.view(-1)[i] = m * v.view(-1)[i] + d
        w.view(-1)[i] -= lr * (d + m * v.view(-1)[i] if nesterov else v.view(-1)[i])
    return w, v


@pytest.mark.parametrize(("nesterov", "scale_vectors"), [(True, True), (False, True), (True, False)])
def test_lars_equals_a_loop(study: ModuleType, generator: torch.Generator, nesterov: bool, scale_vectors: bool) -> None:
    shapes: list[tuple[int, ...]] = [(3, 2, 2, 1), (4, 3), (5,), (3,), (2, 3), (2,)]
    draws = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    draws[3].zero_()  # the shift of a fresh norm
    weights = [nn.Parameter(w.clone()) for w in draws]
    rate = torch.tensor(0.0, dtype=torch.float64)
    how = {"momentum": 0.8, "weight_decay": 0.1, "trust": 0.02, "nesterov": nesterov, "scale_vectors": scale_vectors}
    optimiser = study.AuthorsLARS(weights, lr=rate, **how)
    expected, velocity = [w.clone() for w in draws], [torch.zeros_like(w) for w in draws]
    for step in range(4):
        rate.fill_(1.5 - 0.3 * step)
        for i, weight in enumerate(weights):
            gradient = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            if i == 4 and step > 1:
                gradient.zero_()  # a dead layer
            weight.grad = None if i == 5 else gradient
            if i != 5:
                scaled = scale_vectors or weight.ndim > 1
                how_one: dict[str, Any] = {"lr": float(rate), "nesterov": nesterov, "scaled": scaled}
                how_one |= {"beta": 0.1, "m": 0.8, "eta": 0.02}
                expected[i], velocity[i] = one_tensor(expected[i], gradient, velocity[i], **how_one)
        optimiser.step()
        for weight, wanted in zip(weights, expected, strict=True):
            torch.testing.assert_close(weight.detach(), wanted, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(weights[5].detach(), draws[5], rtol=0, atol=0)


def test_a_weight_without_gradient_keeps_its_size(study: ModuleType) -> None:
    weight = nn.Parameter(torch.ones(3, 3))
    optimiser = study.AuthorsLARS([weight], lr=1.2, weight_decay=0.1)
    for _ in range(5):
        weight.grad = torch.zeros(3, 3)
        optimiser.step()
    assert bool((weight == 1).all())
    with pytest.raises(ValueError, match="weight_decay must be above 0"):
        study.AuthorsLARS([weight], lr=1.2, weight_decay=0.0)


def test_output_norm_keeps_the_head_up_to_scale(study: ModuleType) -> None:
    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    normed, x = study.with_output_norm(head).train(), torch.randn(50, 4)
    head.train()
    plain = head(x)
    wanted = (plain - plain.mean(dim=0)) / (plain.var(dim=0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(normed(x), wanted)


def test_a_group_becomes_lines_once(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lines.jsonl"
    words = ["--parts", "digits", "--groups", "0", "--rows", "120", "--epochs", "1", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["optimisers.py", *words, "--out", str(out), "--claims", str(tmp_path / "claims")])
    study.main()
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["config"]["optimiser"] for line in lines] == ["lars", "authors"]
    assert lines[0]["metrics"]["loss"] != lines[1]["metrics"]["loss"]
    assert all(0 < line["metrics"]["spread"] < 1 and line["n_labelled"] == 12 for line in lines)
    study.main()
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2
    assert not capsys.readouterr().err
