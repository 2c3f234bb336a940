"""Choosing among heads, labellers, epochs or seeds by scores that need only P and U."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument, check_count, check_share, signed_by, unknown_name
from pucl.labels import check_labels, check_negatives
from pucl.priors.adjusted_count import adjusted_count, negatives_look_random
from pucl.priors.bbe import bbe
from pucl.selection.scores import Estimate, PUScores, check_logits, pu_scores, unlabelled_rows

OWNER = "pucl.select"
DEFAULT_CRITERION = "proxy_accuracy"  # what criterion="auto" means
# The score each criterion looks at, and whether more of it is better.
CRITERIA: Mapping[str, bool] = MappingProxyType(
    {
        "zero_one_risk": False,
        "upu_risk": False,
        "nnpu_risk": False,
        "proxy_accuracy": True,
        "proxy_accuracy_one_sample": True,
        "auc": True,
        "pu_auc": True,
        "f1": True,
    }
)


@dataclass(frozen=True)
class Selection:
    """The candidate chosen, the scores of all in the order given, and what they were compared by."""

    name: str
    scores: dict[str, PUScores]
    criterion: str
    prior: float

    def __str__(self) -> str:
        chosen: Estimate = getattr(self.scores[self.name], self.criterion)
        return f"{self.name}: {self.criterion} {chosen}, best of {len(self.scores)} (π = {self.prior:.3f})"


@signed_by(OWNER)
def select(
    candidates: Mapping[str, Any],
    s: Any,
    *,
    prior: float | None = None,
    criterion: str = "auto",
    threshold: float = 0.0,
    negatives: Any = None,
) -> Selection:
    """The best candidate on rows that trained none of them: labelled positives held out, and unlabelled rows.

    ``"proxy_accuracy"`` and ``"zero_one_risk"`` choose the same. ``"auc"`` and ``"pu_auc"`` look at the ranking only,
    need no π, ignore a bad threshold, and choose the same. ``"pu_auc"`` is the proxy AUC of the literature (PAUC; Wang
    et al. 2025), not a partial one: the chance that a labelled positive scores above an unlabelled row.

        AUC_PU = P(g(x_P) > g(x_U)) + P(g(x_P) = g(x_U)) / 2 = π/2 + (1 − π) AUC

    With P ∪ U in the place of U it is c/2 + (1 − c) AUC_PU, c = n_P / (n_P + n_U), which orders candidates alike: it
    needs no other form where P was labelled out of one set. ``"nnpu_risk"`` depends on the scale of the logits: use it
    between epochs or seeds of one head, not between heads. ``"f1"`` suits rare positives. ``"auto"`` is
    ``"proxy_accuracy"``: ``"auc"`` picked the best as often in our study of labellers, but sometimes a candidate
    that ranks well and has a bad threshold. Of equal candidates the first is chosen.

    Args:
        candidates: logits (n,) by name.
        s: PU labels of the held-out rows (n,).
        prior: π; when not given, the median over the candidates of BBE on their logits, or of `adjusted_count` where
            there are confirmed negatives that look random.
        criterion: one of `CRITERIA`, or ``"auto"``.
        threshold: a row is called positive if its logit is above it.
        negatives: confirmed negatives, a mask (n,) or row numbers; they are no part of U.
    """
    if criterion != "auto" and criterion not in CRITERIA:
        raise unknown_name("criterion", criterion, ("auto", *CRITERIA))
    if not candidates:
        raise bad_argument(OWNER, "candidates", "at least one name with logits", Described("none"))
    if prior is not None:
        check_share(OWNER, "prior", prior)
    logits = {name: check_logits(g, s, owner=OWNER, argument=f"candidates[{name!r}]") for name, g in candidates.items()}
    chosen_by = DEFAULT_CRITERION if criterion == "auto" else criterion
    labelled = next(iter(logits.values()))[1]
    negative = check_negatives(negatives, labelled, len(labelled), OWNER)
    share = _estimate_prior(list(logits.values()), negative) if prior is None else float(prior)
    scores = {
        name: pu_scores(*pair, prior=share, threshold=threshold, negatives=negative) for name, pair in logits.items()
    }
    sign = 1 if CRITERIA[chosen_by] else -1
    # AUC is compared before it is clipped, so that two candidates at the border still differ.
    compared = "pu_auc" if chosen_by == "auc" else chosen_by
    best = max(scores, key=lambda name: sign * getattr(scores[name], compared).value)  # the first of equals
    return Selection(best, scores, chosen_by, share)


def hold_out(s: Any, share: float = 0.2, seed: int = 0, *, negatives: Any = None) -> NDArray[np.bool_]:
    """Which rows to keep from training for `select` and `pu_scores`: the same share of P and of U, (n,) bool.

    Of `negatives`, confirmed negatives as a mask (n,) or row numbers, the same share is held out. At least one row of
    each kind is held out and one is left; a single negative is left.
    """
    owner = "pucl.hold_out"
    labelled = check_labels(s, owner=owner)
    negative = check_negatives(negatives, labelled, len(labelled), owner)
    check_share(owner, "share", share)
    check_count(owner, "seed", seed, low=0)
    counts = int(labelled.sum()), int((~labelled).sum())
    if min(counts) < 2:
        got = Described(f"{counts[0]} labelled and {counts[1]} unlabelled")
        raise bad_argument(owner, "s", "0 or 1, with at least two rows of each kind, to hold one out", got)
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labelled), dtype=bool)
    for kind in (labelled, unlabelled_rows(labelled, negative), *([] if negative is None else [negative])):
        rows = np.flatnonzero(kind)
        held[rng.permutation(rows)[: min(max(round(share * len(rows)), 1), len(rows) - 1)]] = True
    return held


def _estimate_prior(
    logits: list[tuple[NDArray[np.float64], NDArray[np.bool_]]], negative: NDArray[np.bool_] | None
) -> float:
    """The median of BBE, or of the adjusted count, over the candidates, kept within (0, 1)."""
    values = []
    for score, labelled in logits:
        p, u = score[labelled], score[unlabelled_rows(labelled, negative)]
        n = None if negative is None or not negatives_look_random(p, u, score[negative]) else score[negative]
        values.append((bbe(p, u) if n is None else adjusted_count(p, u, n)).value)
    middle = float(np.median(values))
    edge = 1 / (1 + len(logits[0][0]))
    return min(max(middle, edge), 1 - edge)
