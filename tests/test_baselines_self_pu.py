"""Self-PU: its risk, its look ahead and its selection by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from baseline_examples import blobs, line, set_weights, sigma
from pucl.baselines import fit_baseline
from pucl.baselines.self_pu import DEFAULT as SELF_PU
from pucl.baselines.self_pu import MeanLogit, Student, hold_out_unlabelled, settings_after, step_risk
from pucl.baselines.shared.look_ahead import LookAhead, PlainNormReLU, shares
from pucl.baselines.shared.network import make_network
from pucl.baselines.shared.regularisers import entropy
from pucl.baselines.shared.training_problem import PUProblem
from pucl.encoders.inputs import Standardise
from pucl.risks.nnpu import nnpu


@pytest.mark.parametrize("logits", [[2, -1, 0.5, 0.3, -2, 1, -0.4, -3], [3, 2.5, 4, -5, -4, -6, -3, -2]])
def test_step_risk_is_the_step_of_nnpu(logits: list[float]) -> None:
    """The two cases of the reference values: both branches, with the gradient of nnPU, and the value it descends."""
    ours, theirs = (torch.tensor(logits, dtype=torch.float64, requires_grad=True) for _ in range(2))
    value = step_risk(ours, 3, torch.tensor(0.4, dtype=torch.float64))
    slopes = [
        torch.autograd.grad(value, ours)[0],
        torch.autograd.grad(nnpu(theirs, torch.arange(8) < 3, prior=0.4), theirs)[0],
    ]
    assert torch.allclose(slopes[0], slopes[1], atol=1e-12)
    p = sigma(logits)
    part = p[3:].mean() - 0.4 * p[:3].mean()
    assert value.item() == pytest.approx(-part if part < 0 else 0.4 * (1 - p[:3]).mean() + part, rel=1e-9)


def test_step_risk_weighs_the_unlabelled() -> None:
    logits, weight = [1.0, -2.0, 0.5, 3.0, 1.5], [7.0, 0.5, 0.25, 1.0, 0.0]
    p = sigma(logits)
    part = (np.array(weight[1:]) * p[1:]).mean() - 0.2 * p[0]
    value = step_risk(torch.tensor(logits), 1, torch.tensor(0.2), torch.tensor(weight))
    assert part > 0 and value.item() == pytest.approx(0.2 * (1 - p[0]) + part, rel=1e-6)


def test_entropy_by_hand() -> None:
    p = sigma([-3.0, 0.0, 1.2])
    assert np.allclose(entropy(torch.tensor([-3.0, 0.0, 1.2])), -(p * np.log(p) + (1 - p) * np.log(1 - p)), atol=1e-6)
    assert entropy(torch.tensor([-500.0, 500.0])).tolist() == [0.0, 0.0]


# Self-PU: calibration


def test_look_ahead_is_the_derivative_through_a_step() -> None:
    """Against differences: take the inner step with a little weight on one cost of one row, and look at the loss."""
    generator = Generator().manual_seed(1)
    x, others = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0)).double()

    def costs(logits: Tensor) -> Tensor:
        return torch.stack([logits.sigmoid() / 4, entropy(logits) / 6], dim=1)

    def loss(logits: Tensor) -> Tensor:
        return 2 * entropy(logits).mean()

    statistics = body.get_buffer("1.running_mean").clone()
    gains = LookAhead(body)(x, costs, others, loss)
    assert torch.equal(body.get_buffer("1.running_mean"), statistics)  # the network itself is only read
    parameters = dict(body.named_parameters())
    values, step = costs(body(x)), 1e-2
    for row, cost in ((0, 0), (3, 1), (5, 0), (2, 1)):
        slope = torch.autograd.grad(values[row, cost], list(parameters.values()), retain_graph=True)
        after = []
        for sign in (1, -1):
            moved = {
                name: value - sign * step * 1e-3 * part
                for (name, value), part in zip(parameters.items(), slope, strict=True)
            }
            after.append(loss(torch.func.functional_call(body, moved, (others,))).item())
        assert gains[row, cost].item() == pytest.approx((after[1] - after[0]) / (2 * step), rel=1e-4)
    assert (gains > 0).any() and (gains < 0).any()


def test_look_ahead_leaves_out_kernels_without_second_derivatives() -> None:
    network = make_network("cnn13", Standardise(torch.zeros(3, 1, 1), torch.ones(3, 1, 1)), (3, 8, 8), seed=0)
    copy = LookAhead(network).copy
    assert list(copy.state_dict()) == list(network.state_dict())
    assert sum(isinstance(module, PlainNormReLU) for module in copy.modules()) == 9
    assert not any(isinstance(module, PlainNormReLU) for module in network.modules())
    x = torch.rand(4, 3, 8, 8, generator=Generator().manual_seed(0))
    assert torch.allclose(copy.eval()(x), network.eval()(x))


def test_shares_by_hand() -> None:
    gains = torch.tensor([[1.0, 9.0], [3.0, 1.0], [-1.0, 2.0], [2.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [1.0, 3.0]])
    # Row 0 is labelled. 0.25 and 1 are given away, which spends a budget of 1.2; one of 1.3 lasts for one row more.
    assert torch.allclose(shares(gains, 1, 1.2)[:, 1], torch.tensor([0, 0.25, 1, 0, 0, 0, 0]), atol=1e-6)
    assert torch.allclose(shares(gains, 1, 1.3)[:, 1], torch.tensor([0, 0.25, 1, 0, 0, 0.5, 0]), atol=1e-6)
    assert torch.allclose(shares(gains, 1, 1.3).sum(dim=1), torch.ones(7))


# Self-PU: selection, batches, phases


def ranked(n: int, n_labelled: int, prior: float) -> tuple[PUProblem, Student]:
    """A student that scores the rows 0, 1, … of a line by their number."""
    problem = line(n, n_labelled, prior=prior)
    student = Student(problem, SELF_PU, 1)
    set_weights(student.network, [1.0, 0.0], -n / 2)
    return problem, student


def test_selection_takes_both_ends() -> None:
    problem, student = ranked(105, 5, 0.4)
    student.select(problem, 0.4)  # pace 0.3 · 0.4 of 100 rows
    assert student.trusted.tolist() == [*range(5, 17), *range(93, 105)]
    assert student.rest.tolist() == list(range(17, 93))
    assert student.labels.nonzero().flatten().tolist() == list(range(93, 105))
    assert student.prior.item() == pytest.approx((40 - 12) / (100 - 24))
    student.select(problem, 0.0)
    assert len(student.trusted) == 0 and len(student.rest) == 100 and student.prior.item() == pytest.approx(0.4)


def test_selection_leaves_half_of_a_rare_class() -> None:
    problem, student = ranked(105, 5, 0.1)
    student.select(problem, 1.0)
    assert len(student.trusted) == 10 and student.prior.item() == pytest.approx(5 / 90)


def test_rows_of_the_steps() -> None:
    problem, student = ranked(105, 5, 0.4)
    student.select(problem, 1.0)  # 20 rows at either end: the cap of half of 40
    rows, sure = student.rows(problem, 20, (2, 6), Generator().manual_seed(0))
    assert rows.shape == (20, 8) and sure.tolist() == [True] * 8 + [False] * 12  # 20 · 40 / 105
    assert set(rows[:8].flatten().tolist()) == set(student.trusted.tolist())
    assert problem.labelled[rows[8:, :2]].all() and set(rows[8:, 2:].flatten().tolist()) == set(student.rest.tolist())


def test_held_out_rows_are_unlabelled_and_gone() -> None:
    problem = line(110, 10)
    rest, held = hold_out_unlabelled(problem, 0.1)
    assert len(held.x) == 10 and not held.labelled.any() and rest.labelled.sum() == 10
    assert sorted([*rest.x[:, 0].tolist(), *held.x[:, 0].tolist()]) == list(range(110))


def test_the_learning_rate_goes_on_through_the_phases() -> None:
    whole = replace(SELF_PU, epochs=200, learning_rate=1e-3)
    for begun, step in ((0, 3), (10, 0), (50, 77)):
        assert settings_after(whole, begun).rate(step, 20) == pytest.approx(
            whole.rate(step + 20 * begun, 20), rel=1e-12
        )


@pytest.mark.parametrize(("epochs", "teachers"), [(2, False), (4, False), (6, True)])
def test_self_pu_gives_the_mean_of_its_teachers(epochs: int, teachers: bool) -> None:
    """A run too short for teachers gives its students."""
    x, s = blobs(120)
    how = {"epochs": epochs, "steps": 2, "batch_size": 16}
    scorer = fit_baseline("self_pu", x, s, prior=0.4, encoder="raw", settings=how, device="cpu")
    assert isinstance(scorer, MeanLogit) and len(scorer.scorers) == 2
    one, other = (part(x) for part in scorer.scorers)
    assert torch.allclose(scorer(x), (one + other) / 2) and not torch.equal(one, other)
    assert teachers == (epochs > SELF_PU.select_until)
