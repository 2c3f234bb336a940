"""nnPU + MixUp, MixPUL, P3Mix-C and -E: their losses by hand; what these and Self-PU all keep."""

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from baseline_examples import (
    blobs,
    line,
    line_problem,
    set_weights,
    sigma,
)
from pucl.baselines import fit_baseline, settings_of
from pucl.baselines.mixpul import DEFAULT as MIXPUL
from pucl.baselines.mixpul import draw_negatives, inconsistency
from pucl.baselines.nnpu_mixup import alike
from pucl.baselines.p3mix_c import DEFAULT as P3MIX
from pucl.baselines.p3mix_e import early_learning
from pucl.baselines.shared import p3mix
from pucl.baselines.shared.learning import PUBatch
from pucl.baselines.shared.p3mix import Mixed
from pucl.baselines.shared.teachers import MeanTeacher
from pucl.baselines.shared.training_problem import PUProblem
from pucl.errors import InputError

METHODS = ("nnpu_mixup", "mixpul", "p3mix_c", "p3mix_e", "self_pu")


# The teacher


def linear(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, value)
    nn.init.constant_(layer.bias, -value)
    return layer


def test_teacher_is_the_mean_of_what_it_saw() -> None:
    student, network = linear(0.0), linear(100.0)
    teacher = MeanTeacher(network, student, decay=0.999)
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(student.weight, value)
        teacher.update()
    assert network.weight.item() == pytest.approx(3.0)  # its own first weights do not count
    late = linear(8.0)
    MeanTeacher(late, student, decay=0.999, seen=1).update()
    assert late.weight.item() == pytest.approx(7.0)  # here they count as one of two


def test_teacher_forgets_from_its_decay_on() -> None:
    network = linear(0.0)
    teacher = MeanTeacher(network, linear(1.0), decay=0.75, seen=9)
    teacher.update()
    assert network.weight.item() == pytest.approx(0.25) and teacher.seen.item() == 10


def test_teacher_keeps_statistics_of_its_own() -> None:
    student, network = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    teacher = MeanTeacher(network, student, decay=0.9)
    before = student.get_buffer("1.running_mean").clone()
    out = teacher(torch.randn(8, 2, generator=Generator().manual_seed(0)))
    teacher.update()
    assert torch.equal(student.get_buffer("1.running_mean"), before)
    assert not torch.equal(network.get_buffer("1.running_mean"), before)
    assert not out.requires_grad and not any(parameter.requires_grad for parameter in network.parameters())
    assert torch.equal(network.get_parameter("0.weight"), student.get_parameter("0.weight"))


# P3Mix


def test_p3mix_loss_by_hand() -> None:
    p, t = np.array([0.9, 0.2, 0.6, 0.05, 0.5]), np.array([1.0, 0.7, 0.0, 0.3, 1.0])
    cross = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    doubt = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    made = Mixed(torch.tensor(p), torch.tensor(t), 2, lambda values: values)
    expected = cross[:2].mean() + cross[2:].mean() + 0.1 * doubt.mean()
    assert p3mix.loss_of(made, 0.1).item() == pytest.approx(expected, rel=1e-12)


def test_hardest_positives_are_nearest_to_the_border() -> None:
    rows = torch.tensor([4, 7, 9, 11, 20])
    logits = torch.tensor([3.0, -0.1, 0.5, -4.0, 0.2])
    p = sigma(logits)
    by_entropy = np.argsort(p * np.log(p) + (1 - p) * np.log(1 - p))[:3]
    assert p3mix.hardest(logits, rows, 3).tolist() == rows[by_entropy].tolist() == [7, 20, 9]


@pytest.mark.parametrize("relabel", [False, True])
def test_p3mix_partners_and_labels(relabel: bool) -> None:
    """A network that says σ(x) of a row x; what a step mixes is told from its draws alone."""
    values = torch.tensor([5.0, 0.3, 9.0, -3.0, 0.1, 2.5, -0.7, 4.0, -2.0])  # the first three are labelled
    problem = line_problem(values[:, None], 3)
    network = problem.network()
    set_weights(network, [1.0, 0.0])  # of the row and of the constant that raw rows have
    settings = replace(P3MIX, epochs=2, steps=4, start=1, hard=1, batch_size=4, labelled_batch=2, learning_rate=1e-12)
    seen: list[tuple[int, float, Tensor, Tensor]] = []
    epochs: list[int] = []

    def spy(batch: Any, made: Mixed) -> Tensor:
        weight, partner, _ = batch.draws
        x, begun = batch.x[:, 0].double().numpy(), bool(epochs[-1])
        p = sigma(x)
        doubtful = begun & (p > 0.2) & (p < 0.8) & ~batch.labelled.numpy()
        label = batch.labelled.numpy() | (begun & relabel & (p >= 0.8))
        theirs = np.where(doubtful, 1.0, label[partner])
        other = np.where(doubtful, 0.3, x[partner])  # the only hard positive: the labelled row nearest to 0
        lam = weight.item()
        assert lam >= 0.5
        assert np.allclose(made.target, lam * label + (1 - lam) * theirs, atol=1e-6)
        mixed = np.clip(sigma(lam * x + (1 - lam) * other), 1e-4, 1 - 1e-4)
        assert np.allclose(made.probability.detach(), mixed, atol=1e-6)
        assert np.allclose(made.other(torch.tensor(p)), lam * p + (1 - lam) * np.where(doubtful, 1.0, p[partner]))
        seen.append((int(doubtful.sum()), lam, partner, made.target))
        return torch.zeros(())

    p3mix.fit(problem, settings, spy, relabel=relabel, network=network, before_epoch=epochs.append)
    assert len(seen) == 8 and sum(count for count, *_ in seen[:4]) == 0 < sum(count for count, *_ in seen[4:])
    assert all(sorted(partner.tolist()) == list(range(6)) for _, _, partner, _ in seen[:4])  # at first a permutation


def test_p3mix_mixes_hidden_layers() -> None:
    """After a layer that is not linear, mixing there and mixing inputs are not the same."""
    body = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    for parameter in body.parameters():
        nn.init.ones_(parameter)
    problem = line_problem(torch.tensor([[3.0], [-1.0], [-2.0], [1.0]]), 1, encoder=body)
    found = {}
    for depth in (0, 1):
        network = problem.network()
        set_weights(network, [1.0])
        settings = replace(
            P3MIX, epochs=1, steps=1, start=5, batch_size=3, labelled_batch=1, learning_rate=1e-12, mix_after=depth
        )

        def spy(batch: Any, made: Mixed, depth: int = depth) -> Tensor:
            weight, partner, _ = batch.draws
            x, lam = batch.x[:, 0].numpy(), weight.item()
            inputs = np.maximum(lam * x + (1 - lam) * x[partner], 0)
            hidden = lam * np.maximum(x, 0) + (1 - lam) * np.maximum(x[partner], 0)
            found[depth] = sigma(hidden if depth else inputs)
            assert np.allclose(made.probability.detach(), found[depth], atol=1e-6)
            return torch.zeros(())

        p3mix.fit(problem, settings, spy, network=network)
    assert not np.allclose(found[0], found[1])


def test_early_learning_draws_predictions_to_the_teacher() -> None:
    p, q = torch.tensor([0.3, 0.9, 0.5], dtype=torch.float64, requires_grad=True), torch.tensor([0.9, 0.8, 0.1])
    value = early_learning(p, q.double())
    agreed = 0.9 * 0.3 + 0.1 * 0.7, 0.8 * 0.9 + 0.2 * 0.1, 0.1 * 0.5 + 0.9 * 0.5
    assert value.item() == pytest.approx(np.log(1 - np.array(agreed)).mean(), rel=1e-6)
    (slope,) = torch.autograd.grad(value, p)
    assert (slope.sign() == torch.tensor([-1, -1, 1])).all()  # down the slope: towards q


# MixPUL


def test_inconsistency_by_hand() -> None:
    logits, said, order = [0.4, -1.0, 2.0], np.array([1.0, -3.0, 0.5]), [2, 0, 1]
    expected = ((sigma(logits) - sigma(0.3 * said + 0.7 * said[order])) ** 2).mean()
    got = inconsistency(torch.tensor(logits), torch.tensor(said), torch.tensor(order), torch.tensor(0.3))
    assert got.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("n_labelled", "expected"), [(10, 150), (100, 400)])
def test_negatives_are_some_of_the_unlabelled(n_labelled: int, expected: int) -> None:
    problem = line(1000 + n_labelled, n_labelled)
    rows = draw_negatives(problem, MIXPUL)
    assert len(rows) == len(set(rows.tolist())) == expected and not problem.labelled[rows].any()
    assert torch.equal(rows, draw_negatives(problem, MIXPUL))


# nnPU with MixUp


def test_partners_are_alike() -> None:
    problem = line(50, 20)
    labelled = torch.arange(4000) % 3 == 0
    partner = alike(labelled, problem.positives, problem.unlabelled, problem.generator.manual_seed(0))
    assert torch.equal(problem.labelled[partner], labelled)
    assert len(set(partner.tolist())) == 50  # from all rows, not from the batch


def test_unknown_pairs_are_said() -> None:
    x, s = blobs()
    with pytest.raises(InputError, match="unknown pairs 'apar': did you mean 'apart'"):
        fit_baseline("nnpu_mixup", x, s, prior=0.4, settings={"pairs": "apar"})


# All of them


class Recordable(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what a step recorded as a CUDA graph must not do: ask for numbers, or for rows by a mask."""

    REFUSED = frozenset({"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "randperm"})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        assert name not in self.REFUSED, f"{name} inside a step"
        if name in ("index", "index_put_"):
            assert all(part is None or part.dtype != torch.bool for part in args[1]), "rows by a mask inside a step"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["naive_mixup", *METHODS])
def test_steps_can_be_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("pucl.baselines." + ("shared.p3mix" if name.startswith("p3") else name))
    plain, phases = module.train, []

    def train(problem: PUProblem, settings: Any, update: Any, *learners: Any, **how: Any) -> None:
        phases.append(how.get("phase", "train"))

        def strict(batch: Any) -> Tensor:
            with Recordable():  # type: ignore[no-untyped-call]
                value: Tensor = update(batch)
            return value

        plain(problem, settings, strict, *learners, **how)

    monkeypatch.setattr(module, "train", train)
    x, s = blobs()
    how = {"steps": 1, "batch_size": 32}
    fit_baseline(name, x, s, prior=0.4, encoder="mlp", settings=how, device="cpu")
    assert phases == {"mixpul": ["first", "second"], "self_pu": ["nnpu", "calibrated", "taught"]}.get(name, ["train"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more"),
    [*((name, {}) for name in METHODS), ("nnpu_mixup", {"pairs": "across"}), ("self_pu", {"soft_labels": False})],
)
def test_learns_and_the_same_seed_gives_the_same_logits(name: str, more: dict[str, Any]) -> None:
    x, s = blobs()
    how = {"steps": 6, "batch_size": 32, "learning_rate": 0.03, **more}
    first, again, other = (
        fit_baseline(name, x, s, prior=0.4, encoder="raw", settings=how, seed=seed, device="cpu")(x)
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert ((first > 0) == (torch.arange(240) < 120)).float().mean() > 0.9


def test_naive_without_a_partner_is_naive(monkeypatch: pytest.MonkeyPatch) -> None:
    x, s = blobs()
    how = {"epochs": 1, "steps": 4, "batch_size": 32, "learning_rate": 0.03}
    mixed, plain = (
        fit_baseline(name, x, s, encoder="mlp", settings=how, device="cpu")(x) for name in ("naive_mixup", "naive")
    )
    assert not torch.allclose(mixed, plain)
    monkeypatch.setattr("pucl.baselines.naive_mixup.beta", lambda _alpha, steps, _generator: torch.ones(steps))
    alone = fit_baseline("naive_mixup", x, s, encoder="mlp", settings=how, device="cpu")(x)
    assert torch.equal(alone, plain)


def test_naive_with_mixup_follows_the_gradient_of_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of plain SGD on a linear classifier of one batch: w − η ∇ of the loss written out row by row."""
    module = importlib.import_module("pucl.baselines.naive_mixup")
    x, s = blobs()
    kept: dict[str, Any] = {}

    def train(problem: Any, _settings: Any, update: Any, learner: Any, *, draws: Any) -> None:
        weight, order = (part[0] for part in draws(torch.Generator().manual_seed(5), 1))
        before = [parameter.detach().clone() for parameter in learner.network.parameters()]
        rows = torch.arange(len(order))
        update(PUBatch(problem.x[rows], problem.labelled[rows], rows, 0, (weight, order)))
        kept.update(
            weight=float(weight),
            order=order,
            before=before,
            after=list(learner.network.parameters()),
            network=learner.network,
            problem=problem,
        )

    monkeypatch.setattr(module, "train", train)
    how = {"batch_size": 40, "optimiser": "sgd", "momentum": 0.0, "nesterov": False, "learning_rate": 0.1}
    fit_baseline("naive_mixup", x, s, encoder="raw", settings=how, device="cpu")
    problem, order, weight = kept["problem"], kept["order"], kept["weight"]
    parts = [part.clone().requires_grad_() for part in kept["before"]]
    loss = torch.zeros(())
    for i, j in enumerate(order.tolist()):
        row = weight * problem.x[i] + (1 - weight) * problem.x[j]
        logit = F.linear(kept["network"].encoder(row[None]), *parts).reshape(())
        own, others = (F.softplus(-logit if problem.labelled[k] else logit) for k in (i, j))
        loss = loss + (weight * own + (1 - weight) * others) / len(order)
    loss.backward()  # type: ignore[no-untyped-call]
    for part, now in zip(parts, kept["after"], strict=True):
        assert part.grad is not None
        torch.testing.assert_close(now.detach(), part.detach() - 0.1 * part.grad, rtol=1e-4, atol=1e-6)


def test_presets_are_the_authors() -> None:
    c, e = settings_of("p3mix_c", "cifar1"), settings_of("p3mix_e", "cifar1")
    assert (c.upper, e.upper, e.early, e.teacher_decay) == (0.8, 0.85, 1.0, 0.997)  # type: ignore[attr-defined]
    for preset in (c, e):
        assert (preset.steps, preset.epochs, preset.batch_size, preset.labelled_batch) == (20, 200, 512, 512)
        rates = [preset.rate(20 * epoch, 20) / 5e-5 for epoch in (0, 19, 20, 99, 100, 199)]
        assert rates == pytest.approx([1, 1, 1 / 2, 1 / 16, 1 / 32, 1 / 32])
        assert (preset.betas, preset.weight_decay, preset.start) == ((0.5, 0.99), 1e-6, 10)  # type: ignore[attr-defined]
    assert [settings_of("p3mix_c", task).mix_after for task in ("fmnist2", "cifar2", "mnist")] == [3, 4, 0]  # type: ignore[attr-defined]
    own = settings_of("self_pu", "cifar3")
    assert (own.epochs, own.select_from, own.select_until, own.select_every, own.grown) == (200, 10, 50, 10, 100)  # type: ignore[attr-defined]
    assert (own.learning_rate, settings_of("self_pu", "fmnist1").learning_rate) == (5e-4, 1e-3)
    mix = settings_of("mixpul", "cifar1")
    assert (mix.first_epochs, mix.epochs) == (90, 50)  # type: ignore[attr-defined]
    script = settings_of("mixpul", "cifar3")
    assert (script.learning_rate, script.optimiser) == (1e-5, "sgd"), "the script's own, for networks with batch norm"
    assert settings_of("naive_mixup", "cifar1").learning_rate == settings_of("naive", "cifar1").learning_rate
    assert settings_of("nnpu_mixup", "cifar1").learning_rate == settings_of("nnpu", "cifar1").learning_rate


def test_presets_of_others_for_the_same_network() -> None:
    """Where the authors' numbers are for other networks: P3Mix's and nnPU's, who have some for these."""
    p3mix = settings_of("p3mix_c", "cifar1")
    for task in ("cifar1", "cifar2", "stl1"):
        for name in ("mixpul", "pulns"):
            own = settings_of(name, task)
            for one in (
                "encoder",
                "optimiser",
                "learning_rate",
                "betas",
                "steps",
                "batch_size",
                "labelled_batch",
                "milestones",
            ):
                assert getattr(own, one) == getattr(p3mix, one), (name, one)
        assert settings_of("self_pu", task).learning_rate == settings_of("nnpu", "cifar1").learning_rate
    assert settings_of("pulns", "cifar3").learning_rate == 1e-4
    nnpu, imbpu = settings_of("nnpu", "cifar3"), settings_of("imbpu", "cifar3")
    assert (imbpu.learning_rate, imbpu.weight_decay) == (nnpu.learning_rate, nnpu.weight_decay)
