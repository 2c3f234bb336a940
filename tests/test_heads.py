"""Heads on embeddings: what each must reach, and what it must refuse."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator

from head_examples import accuracy, corners, known, two_gaussians
from pucl.errors import InputError
from pucl.fitting.compare import Candidate, head_of
from pucl.heads import LinearHead, fit_head
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import entries

METHODS = list(entries("heads"))


@pytest.mark.parametrize("method", METHODS)
def test_heads_on_separable_classes(method: str) -> None:
    z, labelled, y = two_gaussians(1500, gap=7.0, n_labelled=150)
    z_test, _, y_test = two_gaussians(3000, gap=7.0, seed=1)
    head = fit_head(z, labelled, known(labelled, y, 0.4), method=method)
    assert accuracy(head, z_test, y_test) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_heads_on_overlapping_classes(method: str) -> None:
    # The best rule is right on Φ(1) ≈ 0.84 of balanced classes, a little more at π = 0.4.
    z, labelled, y = two_gaussians(6000, gap=2.0, n_labelled=1000)
    z_test, _, y_test = two_gaussians(10_000, gap=2.0, seed=1)
    head = fit_head(z, labelled, known(labelled, y, 0.4), method=method)
    assert 0.80 < accuracy(head, z_test, y_test) < 0.87


@pytest.mark.slow
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
        ("trees", {"n_trees": 0}, "head 'trees': n_trees must be a whole number ≥ 1; got 0"),
        ("trees", {"min_leaf": 0}, "head 'trees': min_leaf must be a whole number ≥ 1; got 0"),
        ("trees", {"seed": -1}, "head 'trees': seed must be a whole number ≥ 0; got -1"),
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


def test_the_old_name_of_whitening_still_works_and_warns() -> None:
    z, labelled, y = two_gaussians(100, gap=3.0, n_labelled=20)
    pseudo = known(labelled, y, 0.4)
    how: dict[str, Any] = {"method": "knn", "k": 5, "centred": True}
    with pytest.warns(FutureWarning, match="head 'knn': 'even' is now called 'whitening'"):
        old = fit_head(z, labelled, pseudo, even=0.5, **how)
    assert torch.equal(old(z), fit_head(z, labelled, pseudo, whitening=0.5, **how)(z))


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
