"""What every registered ranker must satisfy: out-of-fold scores, and π̂ with an interval from the same scores."""

import inspect
from functools import cache
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from pucl.priors import PriorEstimate
from pucl.priors.bbe import bbe
from pucl.pseudo_labels import PseudoLabels, labellers, pseudo_label
from pucl.ranking import DEFAULT_RANKER, Ranking
from pucl.ranking.draws import Draw, averaged
from pucl.ranking.thresholds import threshold_for_share
from pucl.registry import entries
from ranking_examples import broad

RANKERS = tuple(entries("rankers"))
over_rankers = pytest.mark.parametrize("name", RANKERS)


def once(name: str) -> dict[str, Any]:
    """One draw of a ranker that averages several."""
    return {"repeats": 1} if "repeats" in inspect.signature(entries("rankers")[name].function).parameters else {}


def rank(name: str, z: Tensor, labelled: Tensor, **options: Any) -> Ranking:
    ranking = entries("rankers")[name].function(z, labelled, **{**once(name), **options})
    assert isinstance(ranking, Ranking)
    return ranking


@cache
def apart(n: int = 600, *, share: float = 0.4, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Two clusters far apart, a quarter of the positives labelled: z, labelled, truth."""
    g = Generator().manual_seed(seed)
    y = torch.rand(n, generator=g) < share
    z = torch.randn(n, 6, generator=g)
    z[:, 0] += 8.0 * y - 4
    return z, y & (torch.rand(n, generator=g) < 0.25), y


def test_the_families_of_labellers_are_disjoint() -> None:
    assert {"cvir", "kernel_cvir", "label_spreading", "stacked"} <= set(RANKERS) and DEFAULT_RANKER in RANKERS
    assert not set(RANKERS) & set(entries("pseudo-labellers"))
    assert list(labellers()) == sorted([*RANKERS, *entries("pseudo-labellers")])


@over_rankers
def test_contract(name: str) -> None:
    z, labelled, y = apart()
    before, state = z.clone(), torch.get_rng_state()
    ranking, again = (rank(name, z, labelled, seed=3) for _ in range(2))
    assert torch.equal(z, before) and torch.equal(state, torch.get_rng_state()), "nothing outside is touched"
    assert ranking.score.shape == (len(z),) and ranking.score.dtype == z.dtype and ranking.score.isfinite().all()
    assert torch.equal(ranking.score, again.score) and ranking.prior == again.prior, "the same seed, the same ranking"
    positive, negative = ranking.score[y & ~labelled], ranking.score[~y]
    assert (positive[:, None] > negative).float().mean() > 0.99
    assert ranking.prior.method == name
    order = torch.randperm(len(z), generator=Generator().manual_seed(1))
    shuffled = rank(name, z[order], labelled[order], seed=3)
    assert shuffled.prior.value == pytest.approx(ranking.prior.value, abs=0.02), "the order of rows does not matter"


@pytest.mark.slow
@over_rankers
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_interval_is_that_of_the_same_scores(name: str, repeats: int) -> None:
    z, labelled, _ = broad(300)
    if repeats > 1 and not once(name):
        pytest.skip("it averages no draws")
    ranking = rank(name, z, labelled, **({"repeats": repeats} if once(name) else {}))
    score, prior = ranking.score.double().numpy(), ranking.prior
    tails = bbe(score[labelled.numpy()], score[~labelled.numpy()], confidence=0.9)
    assert prior.low == min(tails.low, prior.value) and prior.high == max(tails.high, prior.value)
    assert 0 <= prior.low <= prior.value <= prior.high <= 1 and prior.low < prior.high


@pytest.mark.slow
@over_rankers
def test_the_interval_covers_the_share_of_classes_far_apart(name: str) -> None:
    refined = "cvir" in name or name in ("label_spreading", "stacked")  # others keep hidden positives among U
    n = 1200 if name == "boosted_trees" else 400  # with 40 labelled rows its π̂ depends on rounding
    covered, widths = 0, []
    for seed in range(10):
        z, labelled, y = apart(n, share=(0.2, 0.5, 0.7)[seed % 3], seed=seed)
        prior, truth = rank(name, z, labelled, seed=seed).prior, float(y[~labelled].float().mean())
        covered += prior.low <= truth <= prior.high
        widths.append(prior.high - prior.low)
        assert prior.value == pytest.approx(truth, abs=0.05 if refined or n > 400 else 0.1)
    assert covered >= 9 and max(widths) < 0.9, "it covers, and it says something"


@pytest.mark.slow
@over_rankers
def test_the_interval_narrows_with_rows(name: str) -> None:
    few, many = (rank(name, *apart(n)[:2]).prior for n in (200, 2000))
    assert many.high - many.low < 0.7 * (few.high - few.low)


@over_rankers
def test_a_given_prior_is_taken_as_it_is(name: str) -> None:
    z, labelled, _ = apart()
    ranking = rank(name, z, labelled, prior=0.3)
    assert ranking.prior == PriorEstimate(0.3, 0.3, 0.3, "given")
    pseudo = pseudo_label(z, labelled, method=name, prior=0.3, **once(name))
    assert pseudo.prior == 0.3 and pseudo.interval == (0.3, 0.3)


@pytest.mark.slow
@over_rankers
def test_pseudo_labels_of_a_ranking(name: str) -> None:
    z, labelled, _ = broad(300)
    ranking, pseudo = rank(name, z, labelled), pseudo_label(z, labelled, method=name, **once(name))
    made = PseudoLabels.from_ranking(ranking, labelled)
    for found in (pseudo, made):
        assert found.prior == ranking.prior.value and found.interval == (ranking.prior.low, ranking.prior.high)
    assert torch.equal(pseudo.probability, made.probability)
    by_hand = torch.sigmoid(ranking.score - threshold_for_share(ranking.score[~labelled], ranking.prior.value))
    assert torch.equal(pseudo.probability[~labelled], by_hand[~labelled])
    some = pseudo.only(torch.arange(300) < 100)
    assert some.interval == pseudo.interval and len(some.labels) == 100


def test_rows_seen_by_the_encoder_leave_the_interval_as_it_is() -> None:
    z, labelled, _ = broad(300)
    seen = labelled & (torch.arange(300) % 4 == 0)
    ranking = rank(DEFAULT_RANKER, z[~seen], labelled[~seen])
    pseudo = pseudo_label(z, labelled, seen_by_encoder=seen, repeats=1)
    assert pseudo.interval == (ranking.prior.low, ranking.prior.high) and len(pseudo.labels) == 300


def test_labellers_without_scores_have_no_interval_and_prototypes_have_one() -> None:
    z, labelled, _ = apart()
    assert pseudo_label(z, labelled, method="pupl").interval is None
    pseudo = pseudo_label(z, labelled, method="prototypes")
    assert pseudo.interval is not None and pseudo.interval[0] <= pseudo.prior <= pseudo.interval[1]
    assert pseudo_label(z, labelled, method="prototypes", prior=0.3).interval == (0.3, 0.3)


def test_draws_are_averaged_from_their_own_thresholds() -> None:
    g = Generator().manual_seed(0)
    labelled, draws = torch.arange(50) < 10, [Draw(torch.randn(50, generator=g) + k, 0.2 + 0.1 * k) for k in range(3)]
    score, share = averaged(draws, labelled)
    moved = [draw.score - threshold_for_share(draw.score[~labelled], draw.share) for draw in draws]
    assert torch.allclose(score, (moved[0] + moved[1] + moved[2]) / 3, atol=1e-6) and share == pytest.approx(0.3)
    assert averaged(draws[:1], labelled) is draws[0], "a single draw keeps its scores"
