"""PiCO, WConPU, rank pruning, TEDⁿ, Robust-PU, Elkan-Noto and bagging: their formulae and states, by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pucl.baselines import fit_baseline, settings_of
from pucl.baselines.bagging import DEFAULT as BAGGING
from pucl.baselines.bagging import Machine, _machine, _out_of_bag, solve
from pucl.baselines.elkan_noto import labelled_share, positive_weight
from pucl.baselines.pico import PiCOSettings
from pucl.baselines.rank_pruning import keep, shares, unlabelled_rate
from pucl.baselines.robust_pu import RobustPUSettings, pu_error, thresholds, weights
from pucl.baselines.shared.contrast import Contrasted, ContrastSettings, Prototypes, Queue, contrast, taken_for_positive
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.probability import ProbabilitySettings, fit_probability, out_of_fold
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings
from pucl.baselines.tedn import half_each, ignore_top, proportion
from pucl.baselines.wconpu import Thresholds, hard_load, share_loss
from pucl.encoders.inputs import Standardise
from pucl.errors import InputError
from pucl.numerics.logistic import fit_logistic
from pucl.registry import entries

NAMES = ["bagging", "elkan_noto", "pico", "rank_pruning", "robust_pu", "tedn", "wconpu"]
CPU = torch.device("cpu")
QUICK: dict[str, dict[str, Any]] = {
    "bagging": {"bags": 5, "features": 20},
    "elkan_noto": {"epochs": 1, "steps": 2},
    "pico": {"epochs": 3, "steps": 2, "batch_size": 16, "queue": 24},
    "rank_pruning": {"epochs": 1, "steps": 2},
    "robust_pu": {"epochs": 2, "steps": 2, "first_epochs": 1, "first_steps": 2, "inner": 1},
    "tedn": {"epochs": 2, "warm": 1, "steps": 2},
    "wconpu": {"epochs": 3, "steps": 2, "batch_size": 16, "queue": 24},
}

every_method = pytest.mark.parametrize("name", NAMES)


def blobs(n_labelled: int = 12, n_unlabelled: int = 60, *, dim: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Positives around +1, negatives around −1; half of U is positive."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.ones(n_labelled + n_unlabelled, 1)
    centre[n_labelled + n_unlabelled // 2 :] = -1
    s = torch.arange(len(centre)) < n_labelled
    return centre + 0.7 * torch.randn(len(centre), dim, generator=generator), s


def problem_of(x: Tensor, labelled: Tensor, *, prior: float | None = 0.5, encoder: str = "mlp") -> PUProblem:
    return PUProblem("test", x, labelled, prior, encoder, Standardise.of(x), 0)


class First(nn.Module):
    """Scores rows by their first feature."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


def unit(n: int, dim: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return nn.functional.normalize(torch.randn(n, dim, generator=generator, dtype=torch.float64), dim=1)


# All of them


@every_method
def test_the_same_seed_gives_the_same_logits(name: str) -> None:
    x, s = blobs()

    def logits(seed: int) -> Tensor:
        scorer = fit_baseline(name, x, s, prior=0.5, encoder="mlp", settings=QUICK[name], seed=seed, device="cpu")
        found: Tensor = scorer(x)
        return found

    first = logits(0)
    assert first.shape == (len(x),)
    assert first.isfinite().all()
    assert torch.equal(first, logits(0))
    assert not torch.equal(first, logits(1))


@every_method
def test_the_global_generator_is_left_alone(name: str) -> None:
    x, s = blobs()
    before = torch.get_rng_state()
    fit_baseline(name, x, s, prior=0.5, encoder="mlp", settings=QUICK[name], device="cpu")
    assert torch.equal(before, torch.get_rng_state())


@every_method
def test_a_prior_is_asked_for_only_where_it_is_needed(name: str) -> None:
    x, s = blobs()
    if entries("baselines")[name].needs_prior:
        with pytest.raises(InputError, match="prior"):
            fit_baseline(name, x, s, settings=QUICK[name], device="cpu")
        assert name in ("robust_pu", "wconpu")
    else:
        fit_baseline(name, x, s, settings=QUICK[name], device="cpu")


@every_method
def test_presets_name_networks_that_exist(name: str) -> None:
    for task in ("mnist", "fmnist1", "cifar1", "cifar3", "svhn1", "stl3", "alzheimer"):
        settings = settings_of(name, task)
        assert settings.encoder in entries("encoders") or name == "bagging"


def test_presets_of_the_authors() -> None:
    pico, wconpu = settings_of("pico", "cifar3"), settings_of("wconpu", "cifar3")
    assert (pico.encoder, pico.epochs, pico.batch_size) == ("resnet18", 800, 256)
    assert (wconpu.encoder, wconpu.epochs, wconpu.learning_rate) == ("cnn13", 800, 0.01)
    assert isinstance(pico, ContrastSettings)
    assert isinstance(wconpu, ContrastSettings)
    assert (pico.queue, pico.temperature, pico.key_decay, pico.prototype_decay) == (8192, 0.07, 0.999, 0.99)
    assert (wconpu.queue, wconpu.prototype_decay) == (8192, 0.999)
    assert settings_of("wconpu", "stl3").encoder == "resnet18"
    tedn = settings_of("tedn", "cifar1")
    assert (tedn.encoder, tedn.labelled_batch, tedn.batch_size, tedn.learning_rate) == ("cnn7", 200, 200, 0.1)


@pytest.mark.parametrize("name", ["pico", "wconpu"])
@pytest.mark.parametrize("side", [8, 20])
def test_contrast_takes_images_of_bytes(name: str, side: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (40, 3, side, side), generator=generator, dtype=torch.uint8)
    settings = {"epochs": 2, "steps": 1, "batch_size": 8, "queue": 16}
    scorer = fit_baseline(name, x, torch.arange(40) < 10, prior=0.5, settings=settings, device="cpu")
    assert scorer(x).isfinite().all()


# Contrast


def test_contrast_is_the_formula() -> None:
    q, z = unit(4, 5, 1), unit(9, 5, 2)
    generator = torch.Generator().manual_seed(3)
    peers, among = (torch.rand(4, 9, generator=generator) < share for share in (0.4, 0.8))
    peers[2] = False
    among[:, 0] = True
    load = torch.rand(4, 9, generator=generator, dtype=torch.float64)

    expected = 0.0
    for i in range(4):
        total = sum(np.exp(float(load[i, j])) * np.exp(float(q[i] @ z[j]) / 0.2) for j in range(9) if among[i, j])
        terms = [np.log(np.exp(float(q[i] @ z[j]) / 0.2) / total) for j in range(9) if peers[i, j]]
        expected -= float(np.mean(terms)) / 4 if terms else 0.0
    assert float(contrast(q, z, peers, among, 0.2, load)) == pytest.approx(expected, rel=1e-12)
    plain = contrast(q, z, peers, among, 0.2)
    assert float(plain) == pytest.approx(float(contrast(q, z, peers, among, 0.2, torch.zeros(4, 9))), rel=1e-12)


def test_prototypes_follow_row_after_row() -> None:
    prototypes = Prototypes(5, 0.9, CPU)
    expected = np.zeros((2, 5))
    for seed in range(3):
        z = unit(7, 5, seed).float()
        positive = torch.tensor([True, False, True, True, False, True, True])
        for row, of in zip(z.numpy(), positive.numpy(), strict=True):
            expected[int(of)] = 0.9 * expected[int(of)] + 0.1 * row
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        prototypes.pull(z, positive)
    np.testing.assert_allclose(prototypes.vectors.numpy(), expected, atol=1e-6)
    near = prototypes.nearest(prototypes.vectors)
    assert near.tolist() == [False, True]


def test_a_class_without_rows_keeps_its_prototype() -> None:
    prototypes = Prototypes(5, 0.9, CPU)
    prototypes.pull(unit(6, 5, 0).float(), torch.tensor([True, False] * 3))
    before = prototypes.vectors.clone()
    prototypes.pull(unit(6, 5, 1).float(), torch.ones(6, dtype=torch.bool))
    torch.testing.assert_close(prototypes.vectors[0], before[0])
    assert not torch.allclose(prototypes.vectors[1], before[1])


def test_the_guard_moves_the_border_only_when_a_class_is_lost() -> None:
    labelled = torch.tensor([True, False, False, False, False])
    split = torch.tensor([-9.0, -1.0, -2.0, 1.0, 0.5])
    assert taken_for_positive(split, labelled, 0.3).tolist() == [True, False, False, True, True]
    lost = torch.tensor([-9.0, 1.0, 2.0, 3.0, 4.0])
    assert taken_for_positive(lost, labelled, 0.0).tolist() == [True] * 5
    assert taken_for_positive(lost, labelled, 0.3).tolist() == [True, False, False, True, True]  # the mean of U is 2.5


def contrasted(**changes: Any) -> tuple[Contrasted, PUBatch]:
    x, s = blobs()
    settings = PiCOSettings(**{"queue": 10, "dim": 6, "key_decay": 0.75, **changes})
    rows = torch.arange(4)
    return Contrasted(problem_of(x, s), settings), PUBatch(x[rows + 10], s[rows + 10], rows + 10, 0)


def test_the_pool_holds_queries_keys_and_the_queue() -> None:
    parts, batch = contrasted()
    seen = parts.look(batch)
    assert seen.pool.shape == (18, 6)
    assert torch.equal(seen.pool[:4], seen.queries)
    assert torch.equal(seen.pool[4:8], seen.keys)
    expected = torch.cat([~torch.eye(4, dtype=torch.bool), torch.ones(4, 4, dtype=torch.bool)], dim=1)
    assert torch.equal(seen.others[:, :8], expected)
    assert not seen.others[:, 8:].any()  # nothing queued yet
    assert torch.equal(parts.own(seen).nonzero()[:, 1], torch.arange(4) + 4)
    assert seen.positive[:2].all()  # rows 10 and 11 are labelled
    assert seen.nearest[:2].all()
    assert float(parts.instance_loss(seen).detach()) == pytest.approx(
        0.0, abs=1e-6
    )  # each key is alone in an empty queue

    parts.remember(seen)
    again = parts.look(batch)
    assert torch.equal(again.pool[8:12], seen.keys)
    assert again.others[:, 8:12].all()
    assert not again.others[:, 12:].any()
    assert torch.equal(again.classes[8:12], seen.positive)
    near = (again.queries[:, None] * torch.cat([again.keys[:, None], seen.keys.expand(4, -1, -1)], dim=1)).sum(2) / 0.07
    expected_loss = -near.log_softmax(dim=1)[:, 0].mean()
    torch.testing.assert_close(parts.instance_loss(again), expected_loss)


def test_keys_follow_queries_and_get_no_gradient() -> None:
    parts, batch = contrasted()
    with torch.no_grad():
        for parameter in parts.query.parameters():
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in parts.key.parameters()]
    seen = parts.look(batch)
    for key, old, query in zip(parts.key.parameters(), before, parts.query.parameters(), strict=True):
        torch.testing.assert_close(key, 0.75 * old + 0.25 * query)
        assert not key.requires_grad
    assert seen.queries.requires_grad
    assert not seen.keys.requires_grad
    assert parts.key.training  # its norms see the batch
    torch.testing.assert_close(seen.keys.norm(dim=1), torch.ones(4))


def test_pseudo_labels_wait_for_their_epoch() -> None:
    parts, _ = contrasted(start=2)
    begun = []
    for epoch in range(4):
        parts.begin(epoch)
        begun.append(bool(parts.started))
    assert begun == [False, False, True, True]


# WConPU


def test_thresholds_follow_the_batches() -> None:
    limits, level, share = Thresholds(0.8, CPU), 0.5, 0.5
    for seed in range(3):
        logits = 2 * torch.randn(6, generator=torch.Generator().manual_seed(seed))
        positive = logits > 0
        sure = limits.sure(logits, positive)
        p = 1 / (1 + np.exp(-logits.numpy().astype(float)))
        level = 0.8 * level + 0.2 * np.maximum(p, 1 - p).mean()
        share = 0.8 * share + 0.2 * p.mean()
        mass = np.array([1 - share, share]) / max(share, 1 - share)
        expected = [max(one, 1 - one) >= mass[int(one > 0.5)] * level for one in p]
        assert sure.tolist() == expected


def test_hard_negatives_weigh_the_inverse_of_their_distance() -> None:
    prototypes, queue = Prototypes(3, 0.9, CPU), Queue(16, z=torch.zeros(3))
    prototypes.vectors.copy_(torch.tensor([[-1.0, 0, 0], [1.0, 0, 0]]))
    keys, queries = unit(12, 3, 5).float(), unit(4, 3, 6).float()
    queue.push(z=keys)
    load = hard_load(queries, queue, prototypes, 0.25)
    assert load.shape == (4, 16)
    assert (load[:, 12:] == 0).all()  # never written
    for i, q in enumerate(queries.numpy()):
        apart = ((q - keys.numpy()) ** 2).sum(1) / 4
        limit = np.sort(apart)[2]  # the third of twelve
        for j, key in enumerate(keys.numpy()):
            hard = apart[j] <= limit and (q[0] > 0) != (key[0] > 0)
            assert float(load[i, j]) == pytest.approx(-np.log(apart[j]) if hard else 0.0, abs=1e-4)
    assert (load > 0).any()


def test_loss_of_the_shares() -> None:
    logits = torch.tensor([2.0, -1.0, 0.5, 0.3, -2.0], dtype=torch.float64)
    labelled = torch.tensor([True, True, False, False, False])
    p = 1 / (1 + np.exp(-logits.numpy()))
    expected = 2 * 0.4 * abs(p[:2].mean() - 1) + abs(p[2:].mean() - 0.4)
    assert float(share_loss(logits, labelled, 0.4)) == pytest.approx(expected, rel=1e-12)
    alone = share_loss(logits, torch.zeros(5, dtype=torch.bool), 0.4)
    assert float(alone) == pytest.approx(abs(p.mean() - 0.4), rel=1e-12)


# Rank pruning and Elkan-Noto


def test_rank_pruning_reference_values() -> None:
    labelled = torch.arange(10) < 4
    probability = torch.tensor([0.9, 0.8, 0.7, 0.3, 0.75, 0.6, 0.2, 0.1, 0.4, 0.05], dtype=torch.float64)
    rate = unlabelled_rate(probability, labelled)
    assert rate == pytest.approx(0.25)
    assert shares(labelled, rate) == pytest.approx((0.533333, 0.222222), abs=1e-6)


def test_the_top_of_u_is_dropped_but_for_ten_rows() -> None:
    labelled = torch.arange(24) < 4
    probability = torch.linspace(1, 0, 24)
    assert (~keep(probability, labelled, 0.37)).nonzero().flatten().tolist() == list(range(4, 11))  # int(0.37 · 20)
    assert int((~keep(probability, labelled, 0.99)).sum()) == 10
    assert keep(probability[:12], labelled[:12], 0.99).all()


def test_probabilities_come_from_models_that_never_saw_the_row() -> None:
    x, s = blobs()
    problem = problem_of(x, s, encoder="raw")
    logits, fold = out_of_fold(problem, ProbabilitySettings())
    assert set(fold.tolist()) == {0, 1, 2}
    assert [int(s[fold == k].sum()) for k in range(3)] == [4, 4, 4]
    scaled = problem.standardise(x)
    for k in range(3):
        layer = fit_logistic(scaled[fold != k], s[fold != k], torch.ones(int((fold != k).sum())), l2=1e-2)
        torch.testing.assert_close(logits[fold == k], layer(scaled[fold == k])[:, 0])


def test_the_best_epoch_of_held_out_rows_counts() -> None:
    """With a learning rate that ruins the network in the end, the weights of an earlier epoch are returned."""
    x, s = blobs(60, 300)
    how: dict[str, Any] = {
        "epochs": 6,
        "steps": 4,
        "batch_size": 64,
        "optimiser": "sgd",
        "decay": "steps",
        "momentum": 0.0,
    }
    settings = ProbabilitySettings(**how, learning_rate=0.05, milestones=(3,), factor=1e3)
    scorer = fit_probability(problem_of(x, s), settings).eval()
    loss = nn.functional.binary_cross_entropy_with_logits(scorer(x), s.float())
    assert float(loss.detach()) < 0.6


def test_cross_fitting_needs_two_labelled_rows() -> None:
    x, s = blobs(1)
    with pytest.raises(InputError, match="at least two rows of each kind"):
        fit_baseline("rank_pruning", x, s, device="cpu")


def test_weights_of_elkan_and_noto_are_the_posterior() -> None:
    """Ten kinds of rows with known shares of positives; labels at random: w must give those shares back."""
    c, positive = 0.3, torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
    g = c * positive  # P(s = 1 | x)
    expected = (positive - g) / (1 - g)  # P(y = 1 | x, s = 0)
    torch.testing.assert_close(positive_weight(torch.logit(g), torch.tensor(c, dtype=torch.float64)), expected)
    assert float(positive_weight(torch.tensor([9.0]), torch.tensor(0.3))) == 1.0
    assert float(labelled_share(torch.tensor([0.0, 0.0]))) == 0.5


@pytest.mark.parametrize("weighted", [True, False])
def test_elkan_and_noto_on_raw_rows(weighted: bool) -> None:
    x, s = blobs(60, 400)
    scorer = fit_baseline("elkan_noto", x, s, encoder="raw", settings={"weighted": weighted}, device="cpu")
    right = (scorer(x) > 0) == (torch.arange(len(x)) < 60 + 200)
    assert right.float().mean() > 0.95
    assert isinstance(scorer, Moved) != weighted


# TEDⁿ


def test_tedn_ignores_rows_in_loss_and_gradient() -> None:
    logits = torch.tensor([2.0, -1.0, 0.3, -2.0, 1.0], dtype=torch.float64, requires_grad=True)
    kept = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    loss = half_each(logits, 2, kept)
    f = logits.detach().numpy()
    expected = (np.log1p(np.exp(-f[:2])).mean() + np.log1p(np.exp(f[2:4])).mean()) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-12)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert float(logits.grad[4]) == 0
    assert float(half_each(logits, 2, 0 * kept).detach()) == pytest.approx(np.log1p(np.exp(-f[:2])).mean() / 2)


def test_tedn_drops_the_top_share() -> None:
    scores = torch.tensor([0.1, 5.0, 3.0, -2.0, 4.0])
    assert ignore_top(scores, 0.5).tolist() == [1, 0, 1, 1, 0]  # int(2.5) rows
    assert ignore_top(scores, 0.0).tolist() == [1] * 5


def test_tedn_estimates_the_proportion_of_separable_rows() -> None:
    positive = np.linspace(0.51, 0.99, 100)
    unlabelled = np.r_[np.linspace(0.5101, 0.9899, 60), np.linspace(0.01, 0.49, 140)]
    x = torch.tensor(np.r_[positive, unlabelled], dtype=torch.float32)[:, None]
    held = problem_of(x, torch.arange(300) < 100)
    assert proportion(held, First()) == pytest.approx(0.3)  # type: ignore[arg-type]


def test_tedn_shifts_images_only() -> None:
    x, s = blobs()
    settings = {**QUICK["tedn"], "shift": 2}
    plain = fit_baseline("tedn", x, s, settings=QUICK["tedn"], device="cpu")
    assert torch.equal(plain(x), fit_baseline("tedn", x, s, settings=settings, device="cpu")(x))
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    made = [
        fit_baseline("tedn", images, s[:40], encoder="mlp", settings={**settings, "shift": pixels}, device="cpu")
        for pixels in (0, 2)
    ]
    assert not torch.equal(made[0](images), made[1](images))


# Robust-PU


def test_robust_weights_are_the_formula() -> None:
    logits, labelled = torch.tensor([2.0, -1.0, 0.3, -2.0]), torch.tensor([True, True, False, False])
    found = weights(logits, labelled, (0.5, 0.8), (1.0, 1.3))
    f = logits.numpy().astype(float)
    expected = np.r_[np.exp(-np.log1p(np.exp(-f[:2])) / 0.25), np.exp(-np.log1p(np.exp(f[2:] / 1.3)) / 0.64)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_robust_thresholds_grow_in_a_straight_line() -> None:
    settings = RobustPUSettings(growing=4, lowest=(0.1, 0.2), highest=(1.0, 2.0))
    assert thresholds(settings, 0) == pytest.approx((0.1, 0.2))
    assert thresholds(settings, 2) == pytest.approx((0.55, 1.1))
    assert thresholds(settings, 9) == pytest.approx((1.0, 2.0))


def test_robust_selection_needs_no_truth() -> None:
    x = torch.tensor([1.0, 2.0, -1.0, 3.0, 1.0, -1.0, -2.0, -3.0])[:, None]
    held = problem_of(x, torch.arange(8) < 3, prior=0.4)
    expected = 2 * 0.4 * (1 / 3) + 2 / 5 - 0.4
    assert pu_error(held, First()) == pytest.approx(expected)  # type: ignore[arg-type]


def test_a_forgetful_optimiser_is_a_fresh_one() -> None:
    def steps(layer: nn.Linear, learner: Learner, count: int) -> None:
        for number in range(count):
            learner.descend((layer(torch.full((1, 3), 1.0 + number)) ** 2).sum())

    torch_state = torch.Generator().manual_seed(0)
    start = torch.randn(1, 3, generator=torch_state)
    first, second = nn.Linear(3, 1), nn.Linear(3, 1)
    settings = Settings(learning_rate=0.1)
    with torch.no_grad():
        first.weight.copy_(start)
        first.bias.zero_()
    learner = Learner(first, settings)
    steps(first, learner, 3)
    second.load_state_dict(first.state_dict())
    learner.forget()
    steps(first, learner, 2)
    steps(second, Learner(second, settings), 2)
    torch.testing.assert_close(first.weight, second.weight)


# Bagging


def test_machines_are_at_their_minimum() -> None:
    generator = torch.Generator().manual_seed(0)
    labelled = torch.randn(15, 8, generator=generator)
    sample = torch.randn(4, 25, 8, generator=generator)
    labelled[:, -1], sample[:, :, -1] = 1, 1
    found = solve(labelled, sample, 0.7)
    for w, rows in zip(found.double().numpy(), sample.double().numpy(), strict=True):
        phi = np.r_[labelled.double().numpy(), rows]
        side = np.r_[np.ones(15), -np.ones(25)]
        v = np.where(side > 0, 40 / 2 / 15, 40 / 2 / 25)
        slack = np.maximum(0, 1 - side * (phi @ w))
        gradient = np.r_[w[:-1], 1e-4 * w[-1]] - 2 * 0.7 * phi.T @ (v * side * slack)
        assert np.abs(gradient).max() < 1e-3


def test_random_features_stand_for_the_kernel() -> None:
    x, s = blobs()
    problem = problem_of(x, s)
    machine = _machine(problem, replace(BAGGING, features=20_000))
    phi = machine.features(x[:6])[:, :-1]
    scaled = problem.standardise(x[:6])
    kernel = torch.exp(-(torch.cdist(scaled, scaled) ** 2) / 4)
    torch.testing.assert_close(phi @ phi.T, kernel, atol=0.05, rtol=0)


def test_rows_are_scored_by_machines_that_did_not_draw_them() -> None:
    x, s = blobs(4, 6)
    problem = problem_of(x, s)
    machine = _machine(problem, replace(BAGGING, features=9))
    bags = torch.tensor([[0, 0, 1], [1, 2, 5], [1, 4, 4]])  # row 1 of U is in all, row 3 in none
    found = torch.randn(3, 10, generator=torch.Generator().manual_seed(1))
    each = (machine.features(x[4:]) @ found.T).numpy()
    expected = [each[0, 1:].mean(), each[1].mean(), each[2, [0, 2]].mean(), each[3].mean(), each[4, :2].mean()]
    expected.append(each[5, [0, 2]].mean())
    np.testing.assert_allclose(_out_of_bag(problem, machine, found, bags).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_the_threshold_of_bagging() -> None:
    x, s = blobs(20, 200)
    free = fit_baseline("bagging", x, s, device="cpu")
    assert isinstance(free, Machine)
    with_prior = fit_baseline("bagging", x, s, prior=0.3, device="cpu")
    assert isinstance(with_prior, Moved)
    torch.testing.assert_close(with_prior(x), free(x) - with_prior.shift)
    assert float((with_prior(x[~s]) > 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert float((free(x[~s]) > 0).float().mean()) == pytest.approx(0.5, abs=0.1)
