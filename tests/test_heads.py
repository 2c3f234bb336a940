"""Heads on embeddings, calibration to a prior, and fine-tuning: what each must reach, and what it must refuse."""

import copy
import math
import time
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.errors import InputError
from pucl.fitting.candidates import Candidate, head_of
from pucl.heads import LinearHead, fit_head
from pucl.heads.calibration import Calibrated, calibrate
from pucl.heads.finetune import Normed, fine_tune, mixed
from pucl.heads.targets import confident_rows
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.registry import entries
from pucl.training import TrainConfig, pretrain

METHODS = list(entries("heads"))


def two_gaussians(
    n: int, *, gap: float, prior: float = 0.4, n_labelled: int = 0, seed: int = 0, k: int = 10
) -> tuple[Tensor, Tensor, Tensor]:
    """Labelled positives, then `n` unlabelled rows, `gap` standard deviations apart, normalised: z, labelled, truth.

    A third direction shared by both classes keeps the sphere from bending the boundary much.
    """
    g = Generator().manual_seed(seed)
    labelled = torch.arange(n + n_labelled) < n_labelled
    y = labelled | (torch.rand(n + n_labelled, generator=g) < prior)
    z = torch.randn(len(y), k, generator=g)
    z[:, 0] += torch.where(y, gap / 2, -gap / 2)
    z[:, 1] += 6.0
    return F.normalize(z, dim=1), labelled, y


def known(labelled: Tensor, y: Tensor, prior: float) -> PseudoLabels:
    """Pseudo-labels that are right."""
    return PseudoLabels.from_probability(y.float(), labelled, prior=prior)


def accuracy(head: nn.Module, z: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float(((head(z) > 0) == y).float().mean())


@pytest.mark.parametrize("method", METHODS)
def test_heads_on_separable_classes(method: str) -> None:
    z, labelled, y = two_gaussians(1500, gap=7.0, n_labelled=150)
    z_test, _, y_test = two_gaussians(3000, gap=7.0, seed=1)
    head = fit_head(z, labelled, known(labelled, y, 0.4), method=method)
    assert accuracy(head, z_test, y_test) > 0.99


@pytest.mark.parametrize("method", METHODS)
def test_heads_on_overlapping_classes(method: str) -> None:
    # The best rule is right on Φ(1) ≈ 0.84 of balanced classes, a little more at π = 0.4.
    z, labelled, y = two_gaussians(6000, gap=2.0, n_labelled=1000)
    z_test, _, y_test = two_gaussians(10_000, gap=2.0, seed=1)
    head = fit_head(z, labelled, known(labelled, y, 0.4), method=method)
    assert 0.80 < accuracy(head, z_test, y_test) < 0.87


@pytest.mark.parametrize("method", ["nnpu", "upu"])
@pytest.mark.parametrize("prior", [0.2, 0.5, 0.7])
def test_risk_heads_with_the_true_prior_come_close_to_all_labels_known(method: str, prior: float) -> None:
    z, labelled, y = two_gaussians(6000, gap=3.0, prior=prior, n_labelled=1500)
    z_test, _, y_test = two_gaussians(10_000, gap=3.0, prior=prior, seed=1)
    rest = ~labelled
    right = PseudoLabels.from_probability(y[rest].float(), torch.zeros(int(rest.sum()), dtype=torch.bool))
    supervised = accuracy(fit_head(z[rest], [1] + [0] * (int(rest.sum()) - 1), right), z_test, y_test)
    nonsense = PseudoLabels.from_probability(torch.full((len(z),), 0.3), labelled, prior=prior)  # only π is used
    assert accuracy(fit_head(z, labelled, nonsense, method=method), z_test, y_test) > supervised - 0.02
    wrong = fit_head(z, labelled, nonsense, method=method, prior=0.9 if prior < 0.5 else 0.1)
    assert accuracy(wrong, z_test, y_test) < supervised - 0.03, "the prior given must count"


@pytest.mark.parametrize("loss", ["sigmoid", "logistic"])
def test_risk_heads_take_either_loss(loss: str) -> None:
    z, labelled, y = two_gaussians(3000, gap=3.0, n_labelled=500)
    z_test, _, y_test = two_gaussians(5000, gap=3.0, seed=1)
    head = fit_head(z, labelled, known(labelled, y, 0.4), method="nnpu", loss=loss)
    assert accuracy(head, z_test, y_test) > 0.9


def corners(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Four clusters at the corners of a square, classes crosswise: x, labelled, truth."""
    g = Generator().manual_seed(0)
    corner = torch.randint(4, (n,), generator=g)
    centres = torch.tensor([[4.0, 4, 6], [-4, -4, 6], [4, -4, 6], [-4, 4, 6]])
    y = corner < 2
    return F.normalize(centres[corner] + torch.randn(n, 3, generator=g), dim=1), y & (torch.arange(n) < n // 10), y


@pytest.mark.parametrize("method", ["linear", "nnpu", "upu"])
def test_linear_heads_see_through_what_all_rows_have_in_common(method: str) -> None:
    """Rows in a narrow cone, as encoders without batch norm give them: moved and shrunk, the head is the same."""
    z, labelled, y = two_gaussians(2000, gap=4.0, n_labelled=200)
    offset = torch.zeros(z.shape[1])
    offset[0] = 3.0
    pseudo, options = known(labelled, y, 0.4), {} if method == "linear" else {"prior": 0.4}
    cone = 0.03 * z + offset
    first, second = (fit_head(rows, labelled, pseudo, method=method, **options) for rows in (z, cone))
    torch.testing.assert_close(second(cone), first(z), rtol=1e-3, atol=1e-2)
    assert accuracy(second, cone, y) > 0.95
    same = fit_head(torch.ones_like(z), labelled, pseudo, method=method, **options)(z)
    assert torch.isfinite(same).all() and bool((same == same[0]).all())


def test_mlp_and_knn_bend_where_linear_cannot() -> None:
    z, labelled, y = corners(4000)
    pseudo = known(labelled, y, 0.48)
    found = {name: accuracy(fit_head(z, labelled, pseudo, method=name), z, y) for name in ("linear", "mlp", "knn")}
    assert found["linear"] < 0.8 and found["mlp"] > 0.95 and found["knn"] > 0.95


def test_reliability_counts() -> None:
    z, labelled, y = two_gaussians(3000, gap=4.0, n_labelled=300)
    z_test, _, y_test = two_gaussians(3000, gap=4.0, seed=1)
    # 45 % of the negatives are called positive, with next to no reliability.
    wrong = ~y & (torch.rand(len(y), generator=Generator().manual_seed(2)) < 0.45)
    probability = torch.where(wrong, torch.tensor(0.501), y.float())
    pseudo = PseudoLabels.from_probability(probability, labelled, prior=0.4)
    hard: dict[str, dict[str, Any]] = {"linear": {"soft": False, "weighted": True}, "mlp": {}, "knn": {}}

    def fitted(name: str, **options: Any) -> float:
        return accuracy(fit_head(z, labelled, pseudo, method=name, **{**hard[name], **options}), z_test, y_test)

    assert min(map(fitted, hard)) > 0.96
    assert fitted("linear", weighted=False) < fitted("linear") and fitted("mlp", weighted=False) < fitted("mlp")
    # Probabilities that are right need no weights: a row of probability one half says nothing of its class.
    assert fitted("linear", weighted=False) < fitted("linear", soft=True, weighted=False)


def test_a_border_far_from_that_of_the_labels_is_moved_there() -> None:
    # A quarter of a line is surely positive, the rest a little more likely negative: the best logistic curve through
    # these probabilities is at one half far inside the rest.
    t = torch.linspace(-1, 1, 401)
    z, labelled = torch.stack([t, torch.ones_like(t)], dim=1), t > 0.95
    labels = t > 0.5
    pseudo = PseudoLabels.from_probability(torch.where(labels, 0.99, 0.47), labelled)
    head = fit_head(z, labelled, pseudo, method="linear")
    assert ((head(z) > 0) == labels)[~labelled].float().mean() > 0.99
    nearer = replace(pseudo, probability=torch.where(labels, pseudo.probability, 0.1))
    plain = fit_head(z, labelled, nearer, method="linear")
    share = float((plain(z) > 0)[~labelled].float().mean())
    assert share != pytest.approx(float(labels[~labelled].float().mean()), abs=0.01), "a border nearby stays"
    # Classes that overlap, known for certain: the best line calls fewer rows positive than there are.
    g = Generator().manual_seed(0)
    y = torch.rand(2000, generator=g) < 0.3
    x, few = torch.stack([y + torch.randn(2000, generator=g), torch.ones(2000)], dim=1), y & (torch.arange(2000) < 50)
    certain = fit_head(x, few, PseudoLabels.from_probability(y.float(), few), method="linear")
    assert float((certain(x) > 0).float().mean()) < float(y.float().mean()) - 0.1
    alike = fit_head(torch.ones(401, 2), labelled, pseudo, method="linear")(z[:1])
    assert alike.isfinite().all(), "rows that are all equal have no border"


def test_linear_takes_probabilities_for_what_they_are() -> None:
    z, labelled, y = two_gaussians(400, gap=2.0, n_labelled=40)
    p = torch.where(y, 0.9, 0.2)
    soft = fit_head(z, labelled, PseudoLabels(p > 0.5, p, torch.ones(len(p)), 0.5), l2=1e-2)
    # The same as every row twice, once in either class, weighted by its probability.
    twice = PseudoLabels(torch.arange(2 * len(z)) < len(z), torch.ones(2 * len(z)), torch.cat([p, 1 - p]), 0.5)
    doubled = fit_head(z.repeat(2, 1), labelled.repeat(2), twice, soft=False, weighted=True, l2=1e-2)
    assert isinstance(soft, LinearHead) and isinstance(doubled, LinearHead)
    assert torch.allclose(soft.weight, doubled.weight, atol=1e-4) and torch.allclose(soft.bias, doubled.bias, atol=1e-4)


def test_knn_equals_a_slow_loop() -> None:
    g = Generator().manual_seed(0)
    z, queries = (torch.randn(n, 5, generator=g, dtype=torch.float64) for n in (60, 20))
    labelled = torch.arange(60) < 8
    pseudo = PseudoLabels.from_probability(torch.rand(60, generator=g, dtype=torch.float64), labelled, prior=0.3)
    k, tau = 7, 0.2
    head = fit_head(z, labelled, pseudo, method="knn", k=k, temperature=tau)

    def logit(p: float) -> float:
        return math.log(p / (1 - p))

    reliability, positive = pseudo.reliability.tolist(), pseudo.labels.tolist()
    share = sum(r for r, p in zip(reliability, positive, strict=True) if p) / sum(reliability)
    for query, found in zip(queries, head(queries), strict=True):
        near = sorted(((float(F.cosine_similarity(query, row, dim=0)), j) for j, row in enumerate(z)), reverse=True)[:k]
        vote = {j: reliability[j] * math.exp(similarity / tau) for similarity, j in near}
        v = sum(w for j, w in vote.items() if positive[j]) / sum(vote.values())
        expected = logit((k * v + share) / (k + 1)) - logit(share) + logit(0.3)
        assert float(found) == pytest.approx(expected, abs=1e-10)


def test_knn_keeps_its_rows_and_survives_edges() -> None:
    z, labelled, y = two_gaussians(50, gap=4.0, n_labelled=5)
    head = fit_head(z, labelled, known(labelled, y, 0.4), method="knn", k=1000, temperature=1e-3)
    assert {"rows", "labels", "weight"} <= set(head.state_dict())
    assert head(z).isfinite().all()
    pseudo = known(labelled, y, 0.4)
    silent = PseudoLabels(pseudo.labels, pseudo.probability, (torch.arange(55) % 10 == 0).float(), 0.4)
    assert fit_head(z, labelled, silent, method="knn", k=1)(z).isfinite().all()
    alone = PseudoLabels.from_probability(torch.ones(55), labelled, prior=0.9)  # nobody votes for the other class
    assert (fit_head(z, labelled, alone, method="knn")(z) > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_heads_are_repeatable_and_leave_the_global_generator_alone(method: str) -> None:
    z, labelled, y = two_gaussians(400, gap=3.0, n_labelled=50)
    pseudo = known(labelled, y, 0.4)
    first, again = (fit_head(z, labelled, pseudo, method=method)(z) for _ in range(2))
    assert torch.equal(first, again) and not first.requires_grad
    if method == "mlp":
        state = torch.get_rng_state()
        other = fit_head(z, labelled, pseudo, method=method, seed=1)(z)
        assert torch.equal(state, torch.get_rng_state()) and not torch.equal(first, other)


@pytest.mark.parametrize("prior", [0.001, 0.3, 0.9])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_calibration_meets_the_prior(prior: float, temperature: float) -> None:
    logits = torch.randn(5000, generator=Generator().manual_seed(0)) * 20 + 7
    shift = calibrate(logits, prior, temperature=temperature)
    assert float(torch.sigmoid(logits.double() / temperature + shift).mean()) == pytest.approx(prior, abs=1e-6)
    # A constant score can be calibrated too, and the bracket is then a point.
    assert calibrate(torch.zeros(3), prior) == pytest.approx(math.log(prior / (1 - prior)), abs=1e-9)


def test_calibrated_head_agrees_with_itself() -> None:
    z, labelled, y = two_gaussians(3000, gap=2.0, n_labelled=300)
    head = fit_head(z, labelled, known(labelled, y, 0.4))
    calibrated = Calibrated.of(head, z, labelled, prior=0.25)
    probability, logits = calibrated.probability(z), calibrated(z)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert torch.equal(probability > 0.5, logits > 0)
    assert float(probability[~labelled].mean()) == pytest.approx(0.25, abs=1e-6)
    assert torch.equal(logits.argsort(), head(z).argsort()), "calibration keeps the order"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((torch.rand(5), 0), "prior must be a number strictly between 0 and 1; got 0"),
        ((torch.rand(5), None), "prior must be a number strictly between 0 and 1; got None"),
        ((torch.rand(5, 1), 0.5), "logits must be a floating-point vector (n,) with n ≥ 1"),
        ((torch.rand(0), 0.5), "logits must be a floating-point vector (n,) with n ≥ 1"),
        ((torch.tensor([0.0, float("nan")]), 0.5), "logits must be finite; got NaN or infinity"),
    ],
)
def test_bad_calibration(call: tuple[Any, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        calibrate(*call)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("nnpu", {"prior": 0}, "head 'nnpu': prior must be a number strictly between 0 and 1; got 0"),
        ("upu", {"prior": 1.0}, "head 'upu': prior must be a number strictly between 0 and 1; got 1.0"),
        ("knn", {"prior": 0}, "head 'knn': prior must be a number strictly between 0 and 1; got 0"),
        ("knn", {"prior": "half"}, "head 'knn': prior must be a number strictly between 0 and 1; got 'half'"),
        ("nnpu", {"steps": 0}, "head 'nnpu': steps must be a whole number ≥ 1; got 0"),
        ("linear", {"l2": -1}, "head 'linear': l2 must be a finite number > 0; got -1"),
        ("upu", {"loss": "hinge"}, "unknown margin loss 'hinge'"),
        ("knn", {"k": 0}, "head 'knn': k must be a whole number ≥ 1; got 0"),
        ("knn", {"temperature": 0}, "head 'knn': temperature must be a finite number > 0; got 0"),
        ("mlp", {"dropout": 1}, "head 'mlp': dropout must be a number in [0, 1); got 1"),
        ("mlp", {"seed": -1}, "head 'mlp': seed must be a whole number ≥ 0; got -1"),
    ],
)
def test_bad_options_of_heads(method: str, options: dict[str, Any], message: str) -> None:
    z, labelled, y = two_gaussians(20, gap=3.0, n_labelled=5)
    with pytest.raises(InputError) as caught:
        fit_head(z, labelled, known(labelled, y, 0.4), method=method, **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("found", "kept"), [(0.0, 0.025), (1.0, 0.975), (0.01, 0.025), (0.3, 0.3)])
def test_knn_keeps_a_prior_that_was_found_half_a_row_inside(found: float, kept: float) -> None:
    z, labelled, y = two_gaussians(20, gap=3.0, n_labelled=5)
    pseudo = known(labelled, y, found)
    head, same = (fit_head(z, labelled, pseudo, method="knn", **how) for how in ({}, {"prior": kept}))
    assert head(z).isfinite().all() and torch.allclose(head(z), same(z))
    nobody = PseudoLabels.from_probability(torch.zeros(25), labelled)  # no positive in U
    assert nobody.prior == 0 and not (fit_head(z, labelled, nobody, method="knn")(z) > 0)[~labelled & ~y].any()
    candidate = Candidate("raw", z, "stacked", "knn", (), head_options={"k": 3})
    assert head_of(candidate, z, labelled, nobody, 0)(z).isfinite().all()
    exact = fit_head(z, labelled, pseudo, method="knn", prior=1e-3)  # what somebody knows is left as it is
    assert float(exact.get_buffer("prior")) == pytest.approx(1e-3)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_pseudo_labels_with_an_impossible_prior(share: float) -> None:
    z, labelled, y = two_gaussians(20, gap=3.0, n_labelled=5)
    with pytest.raises(InputError, match=r"^head 'knn': prior of the pseudo-labels must be a number within \[0, 1\]"):
        fit_head(z, labelled, known(labelled, y, share), method="knn")


@pytest.mark.parametrize("method", ["nnpu", "upu"])
def test_a_prior_the_pseudo_labels_do_not_have_is_asked_for(method: str) -> None:
    z, labelled, _ = two_gaussians(20, gap=3.0, n_labelled=5)
    nothing = PseudoLabels.from_probability(torch.zeros(25), labelled)  # no positive in U: its prior is 0
    with pytest.raises(InputError, match=f"head '{method}': prior must be a number strictly between 0 and 1; got 0.0"):
        fit_head(z, labelled, nothing, method=method)
    with pytest.raises(InputError, match="pseudo must be of length 25, one per row of z; got 24 pseudo-labels"):
        fit_head(z, labelled, PseudoLabels.from_probability(torch.rand(24), labelled[:24]), method=method)


# Fine-tuning


@cache
def digits() -> tuple[Tensor, Tensor, Encoder, PseudoLabels, Tensor, Tensor]:
    """Digits with a briefly trained encoder: x, s, encoder, pseudo-labels, x_test, y_test."""
    data = load("digits")
    sample = make_pu(data.y_train, 100)
    x, s = torch.as_tensor(data.x_train[sample.rows]), torch.as_tensor(sample.s)
    encoder = pretrain(x, s, config=TrainConfig(epochs=15, batch_size=256, learning_rate=4.0), device="cpu").encoder
    pseudo = pseudo_label(embed(encoder, x), s, prior=sample.prior)
    return x, s, encoder, pseudo, torch.as_tensor(data.x_test), torch.as_tensor(data.y_test)


def test_fine_tuning_takes_seconds_and_leaves_things_as_they_are() -> None:
    x, s, encoder, pseudo, x_test, y_test = digits()
    before = copy.deepcopy(encoder.state_dict())
    start, state = time.process_time(), torch.get_rng_state()
    model = fine_tune(x, s, pseudo, encoder, epochs=10, batch_size=64, device="cpu")
    seconds = (time.process_time() - start) / max(torch.get_num_threads(), 1)
    assert torch.equal(state, torch.get_rng_state()), "the global generator must stay as it is"
    assert seconds < 15
    assert accuracy(model, x_test, y_test) > 0.9
    assert all(torch.equal(v, encoder.state_dict()[k]) for k, v in before.items()), "the given encoder stays as it is"
    assert not model.training and model(x_test[:7]).shape == (7,)


def test_the_norm_before_the_layer_becomes_part_of_it() -> None:
    z, labelled, y = two_gaussians(300, gap=4.0, n_labelled=30)
    head = fit_head(z, labelled, known(labelled, y, 0.4))
    assert isinstance(head, LinearHead)
    model = Normed(nn.Identity(), z, head)
    torch.testing.assert_close(model.eval().score(z), head(z), rtol=1e-4, atol=1e-4)  # it starts as the head
    with torch.no_grad():
        model.layer.weight.mul_(1.5)
        for rows in torch.split(z, 30):
            model.train().score(3 * rows + 1)  # the running statistics move
        expected = model.eval().score(z)
        torch.testing.assert_close(model.folded()(z), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(expected, 1.5 * head(z), atol=0.1)


def test_fine_tuning_is_drawn_by_its_seed() -> None:
    x, s, encoder, pseudo, x_test, _ = digits()
    how: dict[str, Any] = {"epochs": 2, "device": "cpu"}
    first, again, other = (fine_tune(x, s, pseudo, encoder, seed=seed, **how)(x_test) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_fine_tuning_learns_where_the_frozen_embedding_cannot() -> None:
    """Four corners, classes crosswise, seen through two random directions: the encoder has to move."""
    x, labelled, y = corners(2000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        encoder = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 2))
    pseudo = known(labelled, y, 0.48)
    frozen = accuracy(fit_head(embed(encoder, x), labelled, pseudo), embed(encoder, x), y)
    how: dict[str, Any] = {"learning_rate": 0.03, "encoder_scale": 1.0, "batch_size": 100, "device": "cpu"}
    model = fine_tune(x, labelled, pseudo, encoder, view=lambda x, generator: x, **how)  # noqa: ARG005
    assert frozen < 0.8 and accuracy(model, x, y) > 0.95


def test_fine_tuning_takes_vectors_and_any_view() -> None:
    z, labelled, y = two_gaussians(600, gap=4.0, n_labelled=60)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 8))
    for view in (None, "feature_noise", lambda x, generator: x):  # noqa: ARG005
        model = fine_tune(
            z, labelled, known(labelled, y, 0.4), encoder, epochs=10, batch_size=64, view=view, device="cpu"
        )
        assert accuracy(model, z, y) > 0.9


def test_renewed_labels_mend_wrong_ones() -> None:
    """A tenth of the positives in U are called negative: fixed labels keep some of that, renewed ones do not."""
    x, labelled, y = two_gaussians(3000, gap=4.0, n_labelled=200)
    g = Generator().manual_seed(0)
    noisy = y ^ (~labelled & (torch.rand(len(y), generator=g) < 0.2))
    pseudo = PseudoLabels.from_probability(noisy.float(), labelled, prior=float(y[~labelled].float().mean()))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 32))
    how: dict[str, Any] = {"epochs": 20, "learning_rate": 1e-2, "device": "cpu", "view": lambda x, _: x}
    fixed, renewed = (fine_tune(x, labelled, pseudo, encoder, renew=renew, **how) for renew in (False, True))
    assert accuracy(renewed, x, y) > 0.95 and accuracy(renewed, x, y) > accuracy(fixed, x, y)


def test_mixed_rows_and_targets_by_their_weights() -> None:
    x, goal, weight = torch.tensor([[0.0], [4], [8]]), torch.tensor([1.0, 0, 1]), torch.tensor([1.0, 0, 3])
    seen, target, count = mixed(x, goal, weight, torch.tensor(0.75))  # each with the one before it
    assert seen.flatten().tolist() == [2, 3, 7] and count.tolist() == [1.5, 0.25, 2.25]
    assert target.tolist() == [1, 1, 1], "a row that counts nothing has no say"
    _, target, _ = mixed(x, goal, torch.ones(3), torch.tensor(0.75))
    assert target.tolist() == [1, 0.25, 0.75]


def test_mixing_keeps_a_network_from_learning_labels_by_heart() -> None:
    x, labelled, y = two_gaussians(600, gap=3.0, n_labelled=100)
    noisy = y ^ (~labelled & (torch.rand(len(y), generator=Generator().manual_seed(0)) < 0.25))
    pseudo = PseudoLabels.from_probability(noisy.float(), labelled)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 32))
    how: dict[str, Any] = {"epochs": 30, "learning_rate": 1e-2, "device": "cpu", "view": lambda x, _: x, "renew": False}
    plain, mild = (accuracy(fine_tune(x, labelled, pseudo, encoder, mixup=a, **how), x, noisy) for a in (0.0, 1.0))
    assert mild < plain - 0.05


def test_a_teacher_is_asked_about_what_the_network_is_shown() -> None:
    """Its targets count, whatever the pseudo-labels say."""
    x, labelled, y = two_gaussians(600, gap=4.0, n_labelled=60)
    wrong = PseudoLabels.from_probability(torch.where(labelled, 1.0, 1 - y.float()), labelled)
    teacher, seen = nn.Linear(10, 1), []

    class Asked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            logits: Tensor = teacher(x).squeeze(1)
            return logits

    with torch.no_grad():
        head = fit_head(x, labelled, known(labelled, y, 0.4))
        assert isinstance(head, LinearHead)
        teacher.weight.copy_(head.weight[None])
        teacher.bias.copy_(head.bias)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
    how: dict[str, Any] = {"epochs": 20, "learning_rate": 1e-2, "batch_size": 100, "device": "cpu"}
    model = fine_tune(
        x, labelled, wrong, encoder, renew=False, teacher=Asked(), mixup=1.0, view=lambda x, _: x + 100, **how
    )
    assert len(seen) == 20 * 6 and min(float(rows.min()) for rows in seen) > 80, "views, not rows"
    model = fine_tune(x, labelled, wrong, encoder, renew=False, teacher=Asked(), mixup=1.0, view=lambda x, _: x, **how)
    assert accuracy(model, x, y) > 0.9


def test_confident_rows_are_the_most_reliable_of_either_class() -> None:
    labelled = torch.arange(110) < 10
    probability = torch.cat([torch.zeros(10), torch.linspace(0.51, 0.6, 40), torch.linspace(0, 0.2, 60)])
    pseudo = PseudoLabels.from_probability(probability, labelled)
    used = confident_rows(labelled, pseudo, 0.5)
    assert used.tolist() == [*range(10), *range(30, 50), *range(50, 80)]
    assert confident_rows(labelled, pseudo, 1.0).tolist() == list(range(110))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confident": 0}, "confident must be a number in (0, 1]; got 0"),
        ({"confident": 1.2}, "confident must be a number in (0, 1]; got 1.2"),
        ({"epochs": 0}, "epochs must be a whole number ≥ 1; got 0"),
        ({"trust": 1.5}, "trust must be a number within [0, 1]; got 1.5"),
        ({"labelled_share": 0}, "labelled_share must be a number strictly between 0 and 1; got 0"),
        ({"batch_size": 1}, "batch_size must be a whole number ≥ 2; got 1"),
        ({"learning_rate": 0}, "learning_rate must be a finite number > 0; got 0"),
        ({"encoder_scale": -1}, "encoder_scale must be a finite number > 0; got -1"),
        ({"s": [1, 0]}, "s must be of length 30, one label per row; got length 2"),
        ({"x": torch.rand(29, 4), "s": [1] + [0] * 28}, "pseudo must be of length 29, one per row of x; got 30"),
        ({"positive": 0.0}, "pseudo must be labels of both classes; got labels of one class only"),
        ({"prior": 1.0}, "pseudo.prior must be a number strictly between 0 and 1; got 1.0"),
        ({"mixup": -1}, "mixup must be a finite number ≥ 0; got -1"),
        ({"teacher": nn.Identity()}, "teacher must be given with renew=False: what it says are the targets; got"),
        ({"view": "simclrr"}, "unknown views 'simclrr': did you mean 'simclr'?"),
    ],
)
def test_bad_fine_tuning(change: dict[str, Any], message: str) -> None:
    labelled = torch.arange(30) < 3
    probability = torch.ones(30) if "positive" in change else (torch.arange(30) < 12).float()
    pseudo = PseudoLabels.from_probability(probability, labelled, prior=change.get("prior", 0.3))
    call: dict[str, Any] = {"x": torch.rand(30, 4), "s": labelled} | change
    options = {key: value for key, value in call.items() if key not in ("x", "s", "positive", "prior")}
    with pytest.raises(InputError) as caught:
        fine_tune(call["x"], call["s"], pseudo, nn.Linear(4, 3), **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


class Slowly(nn.Module):
    """A part of somebody's own, which asks the device for a number: it cannot be recorded."""

    def forward(self, x: Tensor) -> Tensor:
        return x if float(x.detach().abs().max()) >= 0 else -x


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("way", [{"renew": True}, {"renew": False}, {"renew": False, "confident": 0.5, "mixup": 1.0}])
def test_fine_tuning_on_a_card_recorded_or_not(way: dict[str, Any]) -> None:
    x, s, encoder, pseudo, x_test, y_test = digits()
    how: dict[str, Any] = {"epochs": 10, "batch_size": 64, "device": "cuda", **way}
    for network in (encoder, nn.Sequential(encoder, Slowly())):
        model = fine_tune(x, s, pseudo, network, **how).cpu()
        assert accuracy(model, x_test, y_test) > 0.9
