"""studies/optimisers.py: each LARS against a loop over tensors, and a run from start to line."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

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


def slow_direction(kind: str, w: Tensor, g: Tensor) -> Tensor:
    """The d of one tensor, as each kind of LARS defines it; η = 1e-3, β = 0.1."""
    size, slope = float(w.norm()), float(g.norm())
    if kind in ("FormerLARS", "FreeVectors") and w.ndim == 1:
        return g
    if kind == "FormerLARS":
        return (g + 0.1 * w) * (1e-3 * size / (slope + 0.1 * size) if size * slope > 0 else 1)
    return (g + 0.1 * w) * 1e-3 * size / (slope + 0.1 * size + 1e-8) if size * slope > 0 else g


@pytest.mark.parametrize(
    ("kind", "nesterov"), [("FormerLARS", False), ("HeavyBall", False), ("FreeVectors", True), ("LARS", True)]
)
def test_each_kind_of_lars(study: ModuleType, generator: torch.Generator, kind: str, nesterov: bool) -> None:
    shapes: list[tuple[int, ...]] = [(3, 2, 2, 1), (4, 3), (5,), (3,), (2, 3)]
    expected = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    expected[3].zero_()  # the shift of a fresh norm
    weights, velocity = [nn.Parameter(w.clone()) for w in expected], [torch.zeros_like(w) for w in expected]
    optimiser = getattr(study, kind)(weights, lr=1.5, momentum=0.8, weight_decay=0.1)
    for step in range(3):
        for i, weight in enumerate(weights):
            gradient = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.grad = gradient if i < 4 or step == 0 else torch.zeros_like(gradient)  # the last layer dies
            d = slow_direction(kind, expected[i], weight.grad)
            velocity[i] = 0.8 * velocity[i] + d
            expected[i] = expected[i] - 1.5 * (d + 0.8 * velocity[i] if nesterov else velocity[i])
        optimiser.step()
        for weight, wanted in zip(weights, expected, strict=True):
            torch.testing.assert_close(weight.detach(), wanted, rtol=1e-12, atol=1e-14)


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
