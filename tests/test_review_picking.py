"""Rows worth a look: by score, by doubt, by distance, in turn; never twice, and the same again."""

import numpy as np
import pytest
import torch

from pucl.errors import InputError
from pucl.review.picking import AGAIN, WHY, farthest, pick
from pucl.review.strategies import STRATEGIES

N = 60
LOGITS = np.linspace(-3, 3, N)
Z = torch.nn.functional.normalize(torch.randn(N, 5, generator=torch.Generator().manual_seed(0)), dim=1)
FREE = np.arange(N) % 5 != 0
KNOWN = ~FREE


def rows(strategy: str, n: int = 8, **options: object) -> list[int]:
    return [each.row for each in pick(strategy, n, LOGITS, Z, FREE, KNOWN, **options)]  # type: ignore[arg-type]


def test_likely_are_the_highest_scores_and_doubtful_those_nearest_to_the_threshold() -> None:
    free = np.flatnonzero(FREE)
    assert rows("likely", 3) == free[np.argsort(-LOGITS[free])][:3].tolist()
    assert rows("doubtful", 3) == free[np.argsort(np.abs(LOGITS[free]), kind="stable")][:3].tolist()


def test_different_is_the_farthest_from_all_that_is_known_one_after_another() -> None:
    known: list[int] = np.flatnonzero(KNOWN).tolist()
    expected: list[int] = []
    for _ in range(5):
        distance = torch.cdist(Z, Z[torch.tensor(known)]).min(dim=1).values.numpy()
        expected.append(int(np.where(FREE, distance, -1).argmax()))
        known.append(expected[-1])
    assert rows("different", 5) == expected


def test_without_known_rows_the_first_is_far_from_the_mean() -> None:
    first = next(farthest(Z, np.arange(N), np.empty(0, dtype=np.intp), 0))
    assert first == int((Z - Z.mean(dim=0)).norm(dim=1).argmax())


def test_mixed_takes_turns() -> None:
    picks = pick("mixed", 6, LOGITS, Z, FREE, KNOWN)
    assert [each.why for each in picks] == [WHY[name] for name in ("likely", "doubtful", "different")] * 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_row_twice_none_that_is_known_and_all_if_there_are_few(strategy: str) -> None:
    for n in (1, 7, N, 10 * N):
        found = rows(strategy, n)
        assert len(found) == len(set(found)) == min(n, FREE.sum()) and FREE[found].all()
    assert rows(strategy, seed=3) == rows(strategy, seed=3)
    assert pick(strategy, 5, LOGITS, Z, np.zeros(N, bool), KNOWN) == []


def test_contradictions_come_first() -> None:
    again = np.zeros(N, dtype=bool)
    again[[10, 15]] = True
    picks = pick("likely", 4, LOGITS, Z, FREE, KNOWN, again=again)
    assert [each.row for each in picks[:2]] == [10, 15] and {each.why for each in picks[:2]} == {AGAIN}
    assert len(picks) == 4 and not {each.row for each in picks[2:]} & {10, 15}


def test_wrong_names_and_numbers() -> None:
    with pytest.raises(InputError, match="unknown strategy 'likly': did you mean 'likely'"):
        rows("likly")
    with pytest.raises(InputError, match="n must be a whole number ≥ 1; got 0"):
        rows("likely", 0)
