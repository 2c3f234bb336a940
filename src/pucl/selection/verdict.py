"""The verdict on a model: useful, weak, or not to be used, from rows it did not learn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pucl.labels import check_negatives
from pucl.numerics.auc import Floats, auc, auc_difference, null_error
from pucl.priors import PriorEstimate
from pucl.selection.scores import check_logits, true_auc, unlabelled_rows

Word = Literal["useful", "weak", "do not use"]
OWNER = "pucl.selection.verdict"
ERRORS = 2.0  # standard errors that count as a difference
GOOD_AUC = 0.7  # of positives against negatives, at its lower end, from which labels are worth using
NEARLY_ALL = 0.95  # share of U called positive that is nearly all of it
MARGIN = 0.02  # AUC by which a rival must be better as well, so that no trifle decides
FEWEST = 5  # hidden positives from which a model can be called useful


@dataclass(frozen=True)
class Verdict:
    """Whether a model is worth using, and why; ``str`` gives both as one line."""

    word: Word
    reason: str

    def __str__(self) -> str:
        word = "weak: ranking only" if self.word == "weak" else self.word
        return f"{word}: {self.reason}"

    def at_least(self, word: Word) -> bool:
        """Whether the verdict is `word` or better."""
        order = ("do not use", "weak", "useful")
        return order.index(self.word) >= order.index(word)


NOT_JUDGED = Verdict(
    "do not use", "no labelled positives could be hidden from it, so nothing is known of its quality; label more rows"
)


def verdict(
    logits: Any,
    s: Any,
    *,
    prior: PriorEstimate,
    rivals: Mapping[str, NDArray[Any]],
    threshold: float = 0.0,
    negatives: Any = None,
) -> Verdict:
    """Judge a model by how it ranks positives that were hidden from it.

        A = AUC of P against U,   σ its standard error (DeLong),   σ₀ that of a model without skill
        lower end of the AUC of positives against negatives:   (A − 2σ − π_low/2) / (1 − π_low)

    *Do not use*: A is not above 1/2 by twice the larger of σ and σ₀; or a rival ranks the same rows better by more
    than two standard errors of the paired difference, and by more than 0.02; or the model calls more than 95 % of U
    positive although π is below that. *Useful*: the lower end is at least 0.7 and five positives were hidden. Anything
    else is *weak*: the order of the rows is better than chance, but labels and probabilities would often be wrong.

    π_low is the low end of the interval of π, 0 where π is only bounded: the smaller π is, the lower the AUC that
    explains A. σ is computed with one best and one worst positive added, so that few rows do not look sure.

    Args:
        logits: one per row (n,), finite, of rows the model did not learn from.
        s: PU labels (n,) of these rows.
        prior: π with its interval, or its bound.
        rivals: scores of the same rows by simpler means, by name, such as ``"column 'age' alone"``; NaN where a rival
            has none.
        threshold: of the logits, above which a row is called positive.
        negatives: confirmed negatives, a mask (n,) or row numbers; they are no part of U.
    """
    score, labelled = check_logits(logits, s, owner=OWNER)
    unlabelled = unlabelled_rows(labelled, check_negatives(negatives, labelled, len(score), OWNER))
    p, u = score[labelled], score[unlabelled]
    value, _ = auc(p, u)
    error = auc(np.append(p, [-np.inf, np.inf]), u)[1]
    said = f"a hidden positive ranks above {value:.0%} of the unlabelled rows (± {error:.0%}; chance is 50%)"
    if value - 0.5 <= ERRORS * max(error, null_error(len(p), len(u))):
        return Verdict("do not use", f"{said}, which may be chance; label more positives or add columns")
    better = _better(score, labelled, unlabelled, rivals) if len(p) >= FEWEST else None
    if better is not None:
        return Verdict("do not use", f"{said}, but {better}")
    found = float((u > threshold).mean())
    if found > NEARLY_ALL > prior.high:
        share = f"at most {prior.high:.0%} are" if prior.high > prior.low else f"{prior.high:.0%} are"
        return Verdict("do not use", f"it calls {found:.0%} of the unlabelled rows positive, where {share}")
    lower = true_auc(value - ERRORS * error, min(prior.low, 0.999))
    if len(p) < FEWEST:
        return Verdict("weak", f"{said}, but only {len(p)} positives could be hidden, too few to be sure")
    if lower < GOOD_AUC:
        doubt = f"against true negatives that may be as little as {lower:.0%}, so its labels would often be wrong"
        return Verdict("weak", f"{said}; {doubt}")
    return Verdict("useful", f"{said}{_compared(score, labelled, unlabelled, rivals)}")


def _better(
    score: Floats, labelled: NDArray[np.bool_], unlabelled: NDArray[np.bool_], rivals: Mapping[str, NDArray[Any]]
) -> str | None:
    """The first rival that ranks the rows clearly better, with both figures."""
    for name, rival in rivals.items():
        contest = _contest(score, rival, labelled, unlabelled)
        if contest is not None and contest.gain > max(MARGIN, ERRORS * contest.error):
            figures = f"above {contest.theirs:.0%}, this model above {contest.ours:.0%}"
            return f"on the same rows {name} ranks it better ({figures})"
    return None


def _compared(
    score: Floats, labelled: NDArray[np.bool_], unlabelled: NDArray[np.bool_], rivals: Mapping[str, NDArray[Any]]
) -> str:
    """How simpler rivals rank the same rows, none of them clearly better."""
    found = {name: _contest(score, rival, labelled, unlabelled) for name, rival in rivals.items()}
    contests = {name: each for name, each in found.items() if each is not None}
    if not contests:
        return ""
    ours, whole = next(iter(contests.values())).ours, auc(score[labelled], score[unlabelled])[0]
    part = f"a part of them, where this model ranks it above {ours:.0%},"
    rows = "the same rows" if f"{ours:.0%}" == f"{whole:.0%}" else part
    return f"; on {rows} {' and '.join(f'{name} {_by_how_much(each)}' for name, each in contests.items())}"


def _by_how_much(contest: "_Contest") -> str:
    share = f"ranks it above {contest.theirs:.0%}"
    if round(100 * contest.theirs) <= round(100 * contest.ours):
        return share
    limit = f"a difference above {100 * max(MARGIN, ERRORS * contest.error):.0f} points would count"
    return f"{share} ({100 * contest.gain:.0f} ± {100 * contest.error:.0f} points more; {limit})"


class _Contest(NamedTuple):
    """AUC of a rival and of the model on the same rows, and by how much the rival's is higher."""

    theirs: float
    ours: float
    gain: float
    error: float


def _contest(
    score: Floats, rival: NDArray[Any], labelled: NDArray[np.bool_], unlabelled: NDArray[np.bool_]
) -> _Contest | None:
    """None where the rival knows too few of the rows."""
    known = np.isfinite(rival)
    p, u = known & labelled, known & unlabelled
    if p.sum() < FEWEST or not u.any():
        return None
    theirs, ours = ((np.asarray(each, np.float64)[p], np.asarray(each, np.float64)[u]) for each in (rival, score))
    return _Contest(auc(*theirs)[0], auc(*ours)[0], *auc_difference(theirs, ours))
