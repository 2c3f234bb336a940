"""LARS and SGD against loops over numbers, and what LARS leaves as it is."""

import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.training.lars import LARS
from pucl.training.sgd import SGD

SHAPES: list[tuple[int, ...]] = [(3, 2, 2, 1), (4, 3), (5,), (3,), (2, 3), (2,)]
SHIFT, DEAD, UNUSED = 3, 4, 5  # the zeros of a fresh norm, a layer whose gradient dies, one without a gradient
DECAY, MOMENTUM, TRUST = 0.1, 0.8, 0.02


def slow_step(name: str, w: Tensor, g: Tensor, v: Tensor, *, lr: float) -> tuple[Tensor, Tensor]:
    """A step of one tensor, number by number."""
    size = sum(float(x) ** 2 for x in w.flatten()) ** 0.5
    slope = sum(float(x) ** 2 for x in g.flatten()) ** 0.5
    ratio, decay = 1.0, DECAY if name == "sgd" and w.ndim > 1 else 0.0
    if name == "lars" and size > 0 and slope > 0:
        ratio, decay = TRUST * size / (slope + DECAY * size + 1e-8), DECAY
    w, v = w.clone(), v.clone()
    for i in range(w.numel()):
        d = ratio * (float(g.flatten()[i]) + decay * float(w.flatten()[i]))
        v.view(-1)[i] = MOMENTUM * v.view(-1)[i] + d
        w.view(-1)[i] -= lr * (d + MOMENTUM * v.view(-1)[i] if name == "lars" else v.view(-1)[i])
    return w, v


@pytest.mark.parametrize("name", ["lars", "sgd"])
def test_steps_equal_a_loop_over_numbers(name: str, generator: Generator) -> None:
    draws = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    draws[SHIFT].zero_()
    weights, rate = [nn.Parameter(w.clone()) for w in draws], torch.tensor(0.0, dtype=torch.float64)
    options = {"lr": rate, "momentum": MOMENTUM, "weight_decay": DECAY}
    optimiser = LARS(weights, **options, trust=TRUST) if name == "lars" else SGD(weights, **options)  # type: ignore[arg-type]
    expected, velocity = [w.clone() for w in draws], [torch.zeros_like(w) for w in draws]
    for step in range(4):
        rate.fill_(1.5 - 0.3 * step)
        for i, weight in enumerate(weights):
            gradient = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            if i == DEAD and step > 1:
                gradient.zero_()
            weight.grad = None if i == UNUSED else gradient
            if i != UNUSED:
                expected[i], velocity[i] = slow_step(name, expected[i], gradient, velocity[i], lr=float(rate))
        optimiser.step()
        for weight, wanted in zip(weights, expected, strict=True):
            torch.testing.assert_close(weight.detach(), wanted, rtol=1e-12, atol=1e-14)
    assert torch.equal(weights[UNUSED].detach(), draws[UNUSED])


def test_a_step_by_hand() -> None:
    weight, bias = nn.Parameter(torch.tensor([[3.0, 4.0]])), nn.Parameter(torch.tensor([2.0]))
    optimiser = LARS([weight, bias], lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.02)
    weight.grad, bias.grad = torch.tensor([[0.0, 2.0]]), torch.tensor([-1.0])
    optimiser.step()
    first = 0.02 * 5 / (2 + 0.1 * 5) * torch.tensor([[0.0 + 0.3, 2.0 + 0.4]])
    torch.testing.assert_close(weight.detach(), torch.tensor([[3.0, 4.0]]) - 0.5 * 1.9 * first)
    scaled = 0.02 * 2 / (1 + 0.1 * 2) * (-1 + 0.1 * 2)
    torch.testing.assert_close(bias.detach(), torch.tensor([2 - 0.5 * 1.9 * scaled]), msg="a bias is scaled too")


def test_a_weight_without_gradient_keeps_its_size() -> None:
    weight = nn.Parameter(torch.ones(3, 3))
    optimiser = LARS([weight], lr=1.2, weight_decay=0.1)
    for _ in range(5):
        weight.grad = torch.zeros(3, 3)
        optimiser.step()
    assert bool((weight == 1).all())


def test_zeros_take_an_unscaled_step() -> None:
    shift = nn.Parameter(torch.zeros(2))
    shift.grad = torch.tensor([1.0, -2.0])
    LARS([shift], lr=0.1, momentum=0.0).step()
    torch.testing.assert_close(shift.detach(), torch.tensor([-0.1, 0.2]))


def test_steps_are_scaled_without_decay_too() -> None:
    """The length of a first step is lr · η · ‖w‖ · (1 + m), whatever the gradient."""
    for slope in (1e-3, 1.0, 1e3):
        weight = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
        weight.grad = slope * torch.tensor([0.6, 0.8], dtype=torch.float64)
        LARS([weight], lr=2.0, momentum=0.9, weight_decay=0.0, trust=0.01).step()
        assert float(weight.detach().norm()) == pytest.approx(5 - 2.0 * 0.01 * 5 * 1.9, rel=1e-4)


def test_a_closure_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="LARS takes one gradient per step"):
        LARS([nn.Parameter(torch.ones(2))], lr=0.1).step(lambda: 0.0)


@pytest.mark.parametrize("kind", [LARS, SGD])
def test_gradients_are_forgotten_and_groups_added_as_by_pytorch(kind: type[SGD]) -> None:
    first, second = (nn.Parameter(torch.ones(2)) for _ in range(2))
    optimiser = kind([first], lr=0.1, momentum=0.0)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimiser.add_param_group({"params": [first]})
    optimiser.add_param_group({"params": [second], "momentum": 0.5})
    assert [group["momentum"] for group in optimiser.param_groups] == [0.0, 0.5]
    for set_to_none in (False, True):
        first.grad, second.grad = torch.ones(2), torch.ones(2)
        optimiser.zero_grad(set_to_none=set_to_none)
        for gradient in (first.grad, second.grad):
            assert gradient is None if set_to_none else gradient is not None and not gradient.any()
