"""Random walks among near rows, stacked scores, and a head that sees rows from their mean."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pucl.errors import InputError
from pucl.heads import fit_head
from pucl.heads.knn import NearestNeighbours
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.ranking.cvir import play
from pucl.ranking.kernel import directions
from pucl.ranking.label_spreading import FLOOR, wander
from pucl.ranking.stacking import RIDGE, stack

METHODS = ("walks", "stacked")


def clusters(n: int = 2000, *, of: int = 100, k: int = 30, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Clusters of near rows, every other one positive and a third of it labelled: z, labelled, truth."""
    g = Generator().manual_seed(seed)
    cluster = torch.arange(n) % of
    z = torch.randn(of, k, generator=g)[cluster] + 0.7 * torch.randn(n, k, generator=g)
    y = cluster % 2 == 0
    return z, y & (torch.rand(n, generator=g) < 1 / 3), y


def broad(n: int = 600, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Two wide clouds that overlap: z, labelled, truth."""
    g = Generator().manual_seed(seed)
    y = torch.arange(n) % 2 == 0
    z = torch.randn(n, 10, generator=g)
    z[:, 0] += 3.0 * y
    return z, y & (torch.rand(n, generator=g) < 0.3), y


def cloud(n: int = 120, k: int = 6, *, n_p: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of length 1 without any structure, of which the first are labelled."""
    return F.normalize(torch.randn(n, k, generator=Generator().manual_seed(seed)), dim=1), torch.arange(n) < n_p


def quick(z: Tensor, labelled: Any, method: str, **options: Any) -> PseudoLabels:
    return pseudo_label(z, labelled, method=method, **{"repeats": 1, **options})


def right(found: PseudoLabels, labelled: Tensor, y: Tensor) -> float:
    return float((found.labels == y)[~labelled].float().mean())


def above(score: Tensor, labelled: Tensor) -> float:
    """How often a labelled row scores above an unlabelled one."""
    return float((score[labelled][:, None] > score[~labelled]).float().mean())


# Walks


def by_hand(
    rows: Tensor, labelled: Tensor, fold: Tensor, *, share: float, rounds: int, neighbours: int, tau: float, on: float
) -> Tensor:
    """The formula of `walks` with whole matrices: chances to nearest rows, T, the series as a solution, every fold."""
    n = len(rows)
    cosine = (rows.double() @ rows.double().T).fill_diagonal_(-torch.inf)
    nearest = cosine >= cosine.topk(neighbours, dim=1).values[:, -1:]
    chances = torch.softmax(torch.where(nearest, cosine / tau, -torch.inf), dim=1)
    both = chances + chances.T
    steps = both / both.sum(dim=1, keepdim=True)
    met = (1 - on) * torch.linalg.inv(torch.eye(n, dtype=torch.float64) - on * steps)
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


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize(("neighbours", "tau", "on"), [(5, 0.05, 0.8), (10, 0.5, 0.5), (119, 0.2, 0.9)])
def test_walks_are_the_formula(dealt: Tensor, rounds: int, neighbours: int, tau: float, on: float) -> None:
    rows, labelled = cloud()
    found = wander(
        "test", rows, labelled, prior=0.3, seed=0, rounds=rounds, neighbours=neighbours, temperature=tau, on=on
    )
    slow = by_hand(rows, labelled, dealt, share=0.3, rounds=rounds, neighbours=neighbours, tau=tau, on=on)
    assert torch.allclose(found.score.double(), slow, atol=1e-3) and found.prior == 0.3


def test_a_fold_is_scored_without_its_labels(dealt: Tensor) -> None:
    rows, labelled = cloud()
    other = labelled.clone()
    other[[0, 4, 100]] = torch.tensor([False, False, True])  # all of fold 0
    first, second = (wander("test", rows, who, prior=0.3, seed=0).score for who in (labelled, other))
    assert torch.allclose(first[dealt == 0], second[dealt == 0], atol=1e-5), "but for the order of sums"
    assert ((first - second)[dealt != 0].abs() > 1e-3).all()


@pytest.mark.parametrize("rounds", [0, 3])
def test_labels_without_meaning_are_not_found_again(rounds: int) -> None:
    rows, labelled = cloud(400, 60, n_p=200)
    assert abs(above(wander("test", rows, labelled, prior=0.5, seed=0, rounds=rounds).score, labelled) - 0.5) < 0.1
    values = [wander("test", *cloud(600, 20, n_p=100, seed=k), prior=None, seed=k).prior for k in range(5)]
    assert sum(values) / 5 > 0.9, "P is a fair sample of U"


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The number of values of the largest tensor that comes up."""

    seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self.seen = max(self.seen, value.numel())
        return result


def test_no_more_similarities_are_held_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labelled = cloud(700, 8, n_p=100)
    whole = wander("test", rows, labelled, prior=0.3, seed=0, most=400)
    monkeypatch.setattr("pucl.ranking.label_spreading.PIECE", 4000)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        pieces = wander("test", rows, labelled, prior=0.3, seed=0, most=400)
    assert torch.allclose(pieces.score, whole.score, atol=1e-5)
    assert largest.seen <= 700 * 10, "rows times neighbours, or times folds, are the most"


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_walks_do_not_go_through_are_scored(method: str) -> None:
    z, labelled, y = clusters(1200, of=6)
    some, every = (quick(z, labelled, method, most=most) for most in (100, 5000))
    assert float((some.labels == every.labels)[~labelled].float().mean()) > 0.98
    assert right(some, labelled, y) > 0.97


@pytest.fixture
def nan_where_nothing_was_written() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("nan_where_nothing_was_written")
@pytest.mark.parametrize("most", [2, 3])
def test_a_fold_of_which_nothing_is_fitted_to_is_scored(most: int) -> None:
    rows, labelled = cloud(300, n_p=60)
    assert torch.empty(3).isnan().all()
    for seed in range(6):  # with some of them U's few rows are all of one fold
        far = play(
            "test", rows, labelled, lambda x: x, prior=None, seed=seed, rounds=1, folds=5, spread=20.0, most=most
        )
        near = wander("test", rows, labelled, prior=None, seed=seed, most=most)
        assert far.score.isfinite().all() and near.score.isfinite().all()
        assert 0 <= near.prior <= 1


# Labels


@pytest.mark.parametrize("seed", range(2))
def test_small_clusters_are_found(seed: int) -> None:
    z, labelled, y = clusters(seed=seed)
    for method in METHODS:
        assert right(quick(z, labelled, method), labelled, y) > 0.97
    assert right(quick(z, labelled, "kernel_cvir"), labelled, y) < 0.92, "or there is no need for walks"


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


def test_stacked_is_the_default_and_draws_are_averaged() -> None:
    z, labelled, _ = broad(100)
    default, named = pseudo_label(z, labelled, seed=3), pseudo_label(z, labelled, method="stacked", repeats=5, seed=3)
    assert torch.equal(default.probability, named.probability) and default.prior == named.prior
    draws = [quick(z, labelled, "stacked", seed=seed).prior for seed in range(3, 8)]
    assert default.prior == pytest.approx(sum(draws) / 5) and len(set(draws)) > 1


@pytest.mark.parametrize("method", METHODS)
def test_told_rows_are_positive_and_do_not_count(method: str) -> None:
    z, labelled, _ = broad(300)
    told = labelled & (torch.arange(300) % 4 == 0)
    found, without = quick(z, labelled, method, told=told), quick(z[~told], labelled[~told], method)
    assert torch.equal(found.probability[~told], without.probability) and found.prior == without.prior
    assert found.labels[told].all() and (found.reliability[told] == 1).all()


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
    (("walks",), "neighbours", 0, COUNT.format(1, 0)),
    (("walks",), "temperature", 0, "a finite number > 0; got 0"),
    (("walks",), "on", 1, SHARE.format(1)),
    (("walks",), "on", 0.0, SHARE.format(0.0)),
    (("walks",), "rounds", -1, COUNT.format(0, -1)),
    (METHODS, "folds", 1, COUNT.format(2, 1)),
    (METHODS, "most", 1, COUNT.format(2, 1)),
    (METHODS, "even", 2, "a number within [0, 1]; got 2"),
    (METHODS, "repeats", 0, COUNT.format(1, 0)),
)


@pytest.mark.parametrize(
    ("method", "option", "value", "message"), [(method, *rest) for methods, *rest in BAD for method in methods]
)
def test_bad_options(method: str, option: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(f'{method}: {option} must be {message}')}$"):
        pseudo_label(torch.rand(20, 3), torch.arange(20) < 5, method=method, **{option: value})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("method", METHODS)
def test_a_card_gives_the_same_labels(method: str) -> None:
    for z, labelled, _ in (clusters(), broad()):
        here = quick(z, labelled, method, most=500)
        there = quick(z.cuda(), labelled.cuda(), method, most=500)
        assert there.labels.is_cuda and float((there.labels.cpu() == here.labels).float().mean()) >= 0.995


# Stacks


def scored(n: int = 1000, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A score that ranks positives high, one that knows nothing, and who is labelled; positives come first."""
    g = Generator().manual_seed(seed)
    y, labelled = torch.arange(n) < n // 2, torch.arange(n) < n // 5
    noise, blind = torch.randn(2, n, generator=g, dtype=torch.float64)
    return 2.0 * y + noise, blind, labelled


def weights(score: Tensor, *columns: Tensor) -> list[float]:
    """Of what the stack is made, for columns of unit variance."""
    unit = [(column - column.mean()) / column.std() for column in columns]
    found = torch.linalg.lstsq(torch.stack([*unit, torch.ones_like(score)], dim=1), score)
    return [float(value) for value in found.solution[:-1]]


@pytest.mark.parametrize("prior", [None, 0.375])
def test_a_score_that_says_nothing_gets_little_weight(prior: float | None) -> None:
    for seed in range(5):
        good, blind, labelled = scored(seed=seed)
        found = stack([blind, good], labelled, prior=prior)
        none, much = weights(found.score, blind, good)
        assert -1e-9 < none < 0.2 * much
        assert found.prior == prior if prior else found.prior == pytest.approx(0.375, abs=0.1)


def test_a_score_that_would_be_subtracted_is_left_out() -> None:
    good, blind, labelled = scored()
    wrong = blind - (torch.arange(1000) < 500).double()
    found, alone = (stack(scores, labelled, prior=0.4) for scores in ([good, wrong], [good]))
    assert torch.equal(found.score, alone.score)


def test_scores_that_are_all_upside_down_are_not_turned() -> None:
    good, blind, labelled = scored()
    wrong = blind - (torch.arange(1000) < 500).double()
    assert weights(stack([-good, wrong], labelled, prior=0.4).score, -good, wrong) == pytest.approx([0.5, 0.5])


def test_a_score_stacked_with_itself_ranks_as_it_does() -> None:
    good, _, labelled = scored()
    twice, once = stack([good, good], labelled, prior=None), stack([good], labelled, prior=None)
    assert torch.equal(twice.score.argsort(), good.argsort()) and torch.equal(once.score.argsort(), good.argsort())
    assert twice.prior == pytest.approx(once.prior, abs=0.01)
    # The ridge counts both halves of the weight apart: where one may be w, two may be more than w / 2 each.
    assert RIDGE < 1e-3 and torch.allclose(twice.score, once.score, rtol=0.01, atol=0.01)


def test_scores_that_are_all_equal() -> None:
    good, _, labelled = scored()
    flat = torch.full_like(good, 0.1)
    assert torch.allclose(stack([good, flat], labelled, prior=0.4).score, stack([good], labelled, prior=0.4).score)
    nothing = stack([flat.float(), flat.float()], labelled, prior=None)
    assert nothing.score.isfinite().all() and float(nothing.score.std()) < 1e-3 and 0 <= nothing.prior <= 1


# The head


def reference() -> tuple[Tensor, Tensor, PseudoLabels]:
    z, labelled, y = broad(200)
    z = z.double() + torch.tensor([5.0] * 10)  # in a cone, so that it matters where rows are seen from
    return z, labelled, PseudoLabels.from_probability(0.9 * y.double() + 0.05, labelled, prior=0.4)


SEEN: dict[str, Any] = {"method": "knn", "k": 20, "centred": True, "whitening": 0.5}


def test_knn_from_the_mean_is_knn_of_directions() -> None:
    z, labelled, pseudo = reference()
    plain = fit_head(z, labelled, pseudo, method="knn", k=20)
    assert isinstance(plain, NearestNeighbours) and plain.mean is None and plain.axes is None
    assert not {"mean", "axes"} & set(plain.state_dict())
    for even in (0.0, 0.5):
        seen = directions(z, centred=True, even=even)
        head = fit_head(z, labelled, pseudo, **{**SEEN, "whitening": even})
        moved = fit_head(seen, labelled, pseudo, method="knn", k=20)
        assert torch.allclose(head(z), moved(seen), atol=1e-10)
        assert not torch.allclose(head(z), plain(z), atol=0.1)


def test_knn_sees_new_rows_from_where_it_saw_its_own() -> None:
    z, labelled, pseudo = reference()
    head, new = fit_head(z, labelled, pseudo, **SEEN), broad(50, seed=1)[0].double() + 5
    together = head(new)
    assert torch.allclose(torch.cat([head(row[None]) for row in new]), together, atol=1e-10)
    assert torch.allclose(head(torch.cat([new, z]))[:50], together, atol=1e-10)
    assert torch.allclose(head(7 * new), together, atol=1e-10), "the length of a row says nothing"


def test_knn_from_the_mean_is_kept_by_its_state() -> None:
    z, labelled, pseudo = reference()
    head, other = fit_head(z, labelled, pseudo, **SEEN), fit_head(z.flip(1) + 1, labelled, pseudo, **SEEN)
    assert not torch.allclose(other(z), head(z))
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(z), head(z))


@pytest.mark.parametrize("whitening", [2, -0.1, "half", None])
def test_bad_whitening_of_knn(whitening: Any) -> None:
    z, labelled, pseudo = reference()
    with pytest.raises(InputError, match=r"^head 'knn': whitening must be a number within \[0, 1\]; got"):
        fit_head(z, labelled, pseudo, **{**SEEN, "whitening": whitening})
