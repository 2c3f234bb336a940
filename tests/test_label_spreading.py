"""Label spreading among near rows, and the labels it gives alone and stacked."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pucl.errors import InputError
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.ranking.cvir import cross_fitted_rounds
from pucl.ranking.draws import Draw
from pucl.ranking.label_spreading import FLOOR, spreading_draws
from ranking_examples import broad, cloud, clusters, right

METHODS = ("label_spreading", "stacked")


def quick(z: Tensor, labelled: Any, method: str, **options: Any) -> PseudoLabels:
    return pseudo_label(z, labelled, method=method, **{"repeats": 1, **options})


def above(score: Tensor, labelled: Tensor) -> float:
    """How often a labelled row scores above an unlabelled one."""
    return float((score[labelled][:, None] > score[~labelled]).float().mean())


# Label spreading


def by_hand(
    rows: Tensor,
    labelled: Tensor,
    fold: Tensor,
    *,
    share: float,
    rounds: int,
    n_neighbors: int,
    tau: float,
    alpha: float,
) -> Tensor:
    """`label_spreading` with whole matrices: chances to nearest rows, T, the series as a solution, every fold."""
    n = len(rows)
    cosine = (rows.double() @ rows.double().T).fill_diagonal_(-torch.inf)
    nearest = cosine >= cosine.topk(n_neighbors, dim=1).values[:, -1:]
    chances = torch.softmax(torch.where(nearest, cosine / tau, -torch.inf), dim=1)
    both = chances + chances.T
    steps = both / both.sum(dim=1, keepdim=True)
    met = (1 - alpha) * torch.linalg.inv(torch.eye(n, dtype=torch.float64) - alpha * steps)
    score = torch.empty(n, dtype=torch.float64)
    for k in range(int(fold.max()) + 1):
        outside = fold != k
        negative = candidates = ~labelled & outside
        for turn in range(rounds + 1):
            positive = labelled & outside
            a, b = (n * met @ who.double() / who.sum() + FLOOR for who in (positive, negative))
            f = a.log() - b.log()
            if turn < rounds:
                kept = f[candidates].argsort()[: int(candidates.sum()) - round(share * int(candidates.sum()))]
                negative = torch.zeros_like(candidates).index_fill(0, candidates.nonzero().flatten()[kept], True)
        score[fold == k] = f[fold == k]
    return score


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Rows of `cloud` dealt to four folds in turn, whatever their labels."""
    fold = torch.arange(120) % 4
    monkeypatch.setattr("pucl.ranking.label_spreading.folds_of", lambda *_: fold)
    return fold


def spreading_draw(rows: Tensor, labelled: Tensor, *, seed: int, **how: Any) -> Draw:
    return spreading_draws("test", rows, labelled, seeds=[seed], **how)[0]


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize(("n_neighbors", "tau", "alpha"), [(5, 0.05, 0.8), (10, 0.5, 0.5), (119, 0.2, 0.9)])
def test_label_spreading_is_the_formula(dealt: Tensor, rounds: int, n_neighbors: int, tau: float, alpha: float) -> None:
    rows, labelled = cloud()
    found = spreading_draw(
        rows, labelled, prior=0.3, seed=0, rounds=rounds, n_neighbors=n_neighbors, temperature=tau, alpha=alpha
    )
    slow = by_hand(rows, labelled, dealt, share=0.3, rounds=rounds, n_neighbors=n_neighbors, tau=tau, alpha=alpha)
    assert torch.allclose(found.score.double(), slow, atol=1e-3) and found.share == 0.3


def test_a_fold_is_scored_without_its_labels(dealt: Tensor) -> None:
    rows, labelled = cloud()
    other = labelled.clone()
    other[[0, 4, 100]] = torch.tensor([False, False, True])  # all of fold 0
    first, second = (spreading_draw(rows, who, prior=0.3, seed=0).score for who in (labelled, other))
    assert torch.allclose(first[dealt == 0], second[dealt == 0], atol=1e-5), "but for the order of sums"
    assert ((first - second)[dealt != 0].abs() > 1e-3).all()


@pytest.mark.parametrize("rounds", [0, 3])
def test_labels_without_meaning_are_not_found_again(rounds: int) -> None:
    rows, labelled = cloud(400, 60, n_p=200)
    assert abs(above(spreading_draw(rows, labelled, prior=0.5, seed=0, rounds=rounds).score, labelled) - 0.5) < 0.1
    values = [spreading_draw(*cloud(600, 20, n_p=100, seed=k), prior=None, seed=k).share for k in range(5)]
    assert sum(values) / 5 > 0.9, "P is a fair sample of U"


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The number of values of the largest tensor that comes up."""

    seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self.seen = max(self.seen, (value if value.layout == torch.strided else value.values()).numel())
        return result


def test_no_more_similarities_are_held_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labelled = cloud(700, 8, n_p=100)
    whole = spreading_draw(rows, labelled, prior=0.3, seed=0, max_rows=400)
    monkeypatch.setattr("pucl.numerics.nearest.BLOCK", 4000)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        pieces = spreading_draw(rows, labelled, prior=0.3, seed=0, max_rows=400)
    assert torch.allclose(pieces.score, whole.score, atol=1e-5)
    assert largest.seen <= 2 * 500 * 10, "edges in both directions are the most"


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_labels_do_not_spread_through_are_scored(method: str) -> None:
    z, labelled, y = clusters(1200, of=6)
    some, every = (quick(z, labelled, method, max_rows=max_rows) for max_rows in (100, 5000))
    assert float((some.labels == every.labels)[~labelled].float().mean()) > 0.98
    assert right(some, labelled, y) > 0.97


@pytest.fixture
def nan_where_nothing_was_written() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("nan_where_nothing_was_written")
@pytest.mark.parametrize("max_rows", [2, 3])
def test_a_fold_of_which_nothing_is_fitted_to_is_scored(max_rows: int) -> None:
    rows, labelled = cloud(300, n_p=60)
    assert torch.empty(3).isnan().all()
    for seed in range(6):  # with some of them U's few rows are all of one fold
        far = cross_fitted_rounds(
            "test",
            rows,
            labelled,
            lambda x: x,
            prior=None,
            seed=seed,
            rounds=1,
            folds=5,
            spread=20.0,
            max_rows=max_rows,
        )
        near = spreading_draw(rows, labelled, prior=None, seed=seed, max_rows=max_rows)
        assert far.score.isfinite().all() and near.score.isfinite().all()
        assert 0 <= near.share <= 1


# Labels


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_small_clusters_are_found(seed: int) -> None:
    z, labelled, y = clusters(seed=seed)
    for method in METHODS:
        assert right(quick(z, labelled, method), labelled, y) > 0.97
    assert right(quick(z, labelled, "kernel_cvir"), labelled, y) < 0.92, "or there is no need for label spreading"


@pytest.mark.slow
def test_wide_classes_are_left_to_the_kernel() -> None:
    share = {"kernel_cvir": 0.0, "stacked": 0.0}
    for seed in range(3):
        z, labelled, y = broad(seed=seed)
        for method in share:
            prior = float(y[~labelled].float().mean())  # one draw's π̂ may be off by more than the scores differ
            share[method] += right(quick(z, labelled, method, prior=prior, seed=seed), labelled, y) / 3
    assert share["kernel_cvir"] > 0.85 and share["stacked"] > share["kernel_cvir"] - 0.01


@pytest.mark.parametrize("method", METHODS)
def test_a_given_prior_is_the_share_labelled_positive(method: str) -> None:
    z, labelled, _ = broad(300)
    for prior in (0.2, 0.7):
        found = quick(z, labelled, method, prior=prior)
        assert float(found.labels[~labelled].float().mean()) == pytest.approx(prior, abs=0.003)
        assert found.prior == prior


@pytest.mark.slow
def test_stacked_is_the_default_and_draws_are_averaged() -> None:
    z, labelled, _ = broad(100)
    default, named = pseudo_label(z, labelled, seed=3), pseudo_label(z, labelled, method="stacked", repeats=5, seed=3)
    assert torch.equal(default.probability, named.probability) and default.prior == named.prior
    draws = [quick(z, labelled, "stacked", seed=seed).prior for seed in range(3, 8)]
    assert default.prior == pytest.approx(sum(draws) / 5) and len(set(draws)) > 1


@pytest.mark.parametrize("method", METHODS)
def test_rows_seen_by_the_encoder_are_positive_and_do_not_count(method: str) -> None:
    z, labelled, _ = broad(300)
    seen = labelled & (torch.arange(300) % 4 == 0)
    found, without = quick(z, labelled, method, seen_by_encoder=seen), quick(z[~seen], labelled[~seen], method)
    assert torch.equal(found.probability[~seen], without.probability) and found.prior == without.prior
    assert found.labels[seen].all() and (found.reliability[seen] == 1).all()


def equal_rows(n: int, at: float) -> Tensor:
    return torch.tensor([1.0, at]).repeat(n, 1)


EDGES = (
    pytest.param(torch.rand(4, 2, generator=Generator().manual_seed(0)), 2, id="two of each"),
    pytest.param(torch.rand(8, 3, generator=Generator().manual_seed(0)), 3, id="fewer than neighbours"),
    pytest.param(cloud(90)[0].double(), 20, id="float64"),
    pytest.param(cloud(30)[0].repeat(3, 1), 20, id="every row three times"),
    pytest.param(torch.cat([equal_rows(60, 0.0), equal_rows(60, 1.0)]), 60, id="P and U a point each"),
    pytest.param(torch.cat([equal_rows(60, 0.0), equal_rows(60, 1.0)]), 30, id="classes a point each"),
    pytest.param(torch.cat([equal_rows(40, 1.0), torch.zeros(20, 2)]), 10, id="rows without direction"),
    pytest.param(torch.linspace(-1, 1, 50)[:, None], 10, id="one column"),
)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("z", "n_p"), EDGES)
def test_edges(method: str, z: Tensor, n_p: int) -> None:
    labelled = torch.arange(len(z)) < n_p
    first, again = (quick(z, labelled, method, repeats=2) for _ in range(2))
    assert first.probability.isfinite().all() and first.probability.dtype == z.dtype
    assert torch.equal(first.probability, again.probability) and first.prior == again.prior
    assert 0 <= first.prior <= 1 and not first.labels[~labelled].all()


COUNT, SHARE = "a whole number ≥ {}; got {}", "a number strictly between 0 and 1; got {}"
BAD: tuple[tuple[tuple[str, ...], str, Any, str], ...] = (
    (("label_spreading",), "n_neighbors", 0, COUNT.format(1, 0)),
    (("label_spreading",), "temperature", 0, "a finite number > 0; got 0"),
    (("label_spreading",), "alpha", 1, SHARE.format(1)),
    (("label_spreading",), "alpha", 0.0, SHARE.format(0.0)),
    (("label_spreading",), "rounds", -1, COUNT.format(0, -1)),
    (METHODS, "folds", 1, COUNT.format(2, 1)),
    (METHODS, "max_rows", 1, COUNT.format(2, 1)),
    (METHODS, "whitening", 2, "a number within [0, 1]; got 2"),
    (METHODS, "repeats", 0, COUNT.format(1, 0)),
)


@pytest.mark.parametrize(
    ("method", "option", "value", "message"), [(method, *rest) for methods, *rest in BAD for method in methods]
)
def test_bad_options(method: str, option: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(f'{method}: {option} must be {message}')}$"):
        pseudo_label(torch.rand(20, 3), torch.arange(20) < 5, method=method, **{option: value})


@pytest.mark.cuda
@pytest.mark.parametrize("method", METHODS)
def test_a_card_gives_the_same_labels(method: str) -> None:
    for z, labelled, _ in (clusters(), broad()):
        here = quick(z, labelled, method, max_rows=500)
        there = quick(z.cuda(), labelled.cuda(), method, max_rows=500)
        assert there.labels.is_cuda and float((there.labels.cpu() == here.labels).float().mean()) >= 0.995
