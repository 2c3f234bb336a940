"""Several out-of-fold scores made one."""

import pytest
import torch

from pucl.ranking.stacking import RIDGE, stack
from ranking_examples import scored, weights


@pytest.mark.parametrize("prior", [None, 0.375])
def test_a_score_that_says_nothing_gets_little_weight(prior: float | None) -> None:
    for seed in range(5):
        good, blind, labelled = scored(seed=seed)
        found = stack([blind, good], labelled, prior=prior)
        none, much = weights(found.score, blind, good)
        assert -1e-9 < none < 0.2 * much
        assert found.share == prior if prior else found.share == pytest.approx(0.375, abs=0.1)


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
    assert twice.share == pytest.approx(once.share, abs=0.01)
    # The ridge counts both halves of the weight apart: where one may be w, two may be more than w / 2 each.
    assert RIDGE < 1e-3 and torch.allclose(twice.score, once.score, rtol=0.01, atol=0.01)


def test_scores_that_are_all_equal() -> None:
    good, _, labelled = scored()
    flat = torch.full_like(good, 0.1)
    assert torch.allclose(stack([good, flat], labelled, prior=0.4).score, stack([good], labelled, prior=0.4).score)
    nothing = stack([flat.float(), flat.float()], labelled, prior=None)
    assert nothing.score.isfinite().all() and float(nothing.score.std()) < 1e-3 and 0 <= nothing.share <= 1
