"""Candidates: ways from an embedding to a classifier, compared on rows they did not learn from."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.heads import fit_head
from pucl.heads.calibration import Calibrated, fit_temperature
from pucl.numerics.auc import auc_difference
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.ranking.cvir import cut
from pucl.registry import get

FOLDS = 5
SURE, QUITE_SURE = 1.0, 2.0  # standard errors by which a candidate must be better: of the same embedding, of another


@dataclass(frozen=True)
class Candidate:
    """An embedding (n, k) with a labeller and a head.

    Attributes:
        encoder: what made the embedding.
        z: the embedding.
        labeller: a registered one.
        head: a registered one.
        honest: the folds whose labels the embedding never saw.
        options: of the labeller.
        head_options: of the head.
        told: labelled rows that the encoder learnt by heart, (n,) bool; they do not stand for the positives.
    """

    encoder: str
    z: Tensor
    labeller: str
    head: str
    honest: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    head_options: Mapping[str, Any] = field(default_factory=dict)
    told: Tensor | None = None

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.encoder} + {self.labeller} + {self.head}"

    def label(
        self, used: Tensor, labelled: Tensor, *, prior: float | None, seed: int, quick: bool = True
    ) -> PseudoLabels:
        """Pseudo-labels of the rows `used`; comparisons make do with one draw of a labeller that averages several."""
        takes = inspect.signature(get("pseudo-labellers", self.labeller).function).parameters
        options = {**self.options, **({"repeats": 1} if quick and "repeats" in takes else {})}
        told = None if self.told is None else self.told[used]
        z, s = self.z[used], labelled[used]
        return pseudo_label(z, s, method=self.labeller, prior=prior, told=told, seed=seed, **options)


@dataclass(frozen=True)
class Judged:
    """Logits of the rows a candidate did not learn from, at their numbers; the rest is NaN, (n,)."""

    candidate: Candidate
    logits: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Which rows were judged."""
        return np.isfinite(self.logits)


def judge(
    candidates: Sequence[Candidate], labelled: Tensor, fold: Tensor, *, prior: float | None, seed: int
) -> list[Judged]:
    """Logits of every honest fold, from heads fitted to the other folds; heads of one labeller share its labels."""
    logits = [np.full(len(labelled), np.nan) for _ in candidates]
    known: dict[tuple[str, str, int], PseudoLabels] = {}
    for found, one in zip(logits, candidates, strict=True):
        for k in one.honest:
            used, here = fold != k, (one.encoder, one.labeller, k)
            if here not in known:
                known[here] = one.label(used, labelled, prior=prior, seed=seed)
            head = head_of(one, one.z[used], labelled[used], known[here], seed)
            with torch.no_grad():
                found[(fold == k).numpy()] = head(one.z[fold == k]).double().numpy()
    return [Judged(one, found) for one, found in zip(candidates, logits, strict=True)]


def head_of(candidate: Candidate, z: Tensor, labelled: Tensor, pseudo: PseudoLabels, seed: int) -> nn.Module:
    """The candidate's head on some rows and their pseudo-labels."""
    drawn = {} if candidate.head in ("linear", "knn") else {"seed": seed}
    return fit_head(z, labelled, pseudo, method=candidate.head, **{**candidate.head_options, **drawn})


def calibrated(
    head: nn.Module, judged: Judged, labelled: Tensor, prior: float, *, cut_on: Tensor | None = None
) -> Calibrated:
    """The head at the temperature that suits what its like said of rows they did not learn from.

    With `cut_on`, the embeddings of the unlabelled rows, decisions are moved too: a share π of these is positive. That
    is for a π somebody knows; the head's own cut is as good as one at an estimate.
    """
    rows = torch.from_numpy(judged.rows)
    seen, temperature, shift = labelled[rows], 1.0, 0.0
    if seen.any() and not seen.all():
        temperature = fit_temperature(torch.from_numpy(judged.logits)[rows], seen, prior)
    if cut_on is not None:
        with torch.no_grad():
            shift = -float(cut(head(cut_on), prior)) / temperature
    return Calibrated(head, shift=shift, temperature=temperature)


def at_share(judged: Judged, labelled: Tensor, prior: float) -> Judged:
    """What was judged, with decisions moved so that a share π of its unlabelled rows is positive."""
    free = torch.from_numpy(judged.logits[judged.rows & ~labelled.numpy()])
    return replace(judged, logits=judged.logits - float(cut(free, prior))) if len(free) > 1 else judged


def choose(judged: Sequence[Judged], labelled: NDArray[np.bool_]) -> int:
    """The number of the candidate to take: the first, unless a later one ranks P above U better by more than noise.

    Compared by the AUC of P against U, on the rows both were judged by. To change the embedding takes more: few
    positives are hidden, and an encoder that drew the labelled ones together is judged by others.
    """
    best = 0
    for number in range(1, len(judged)):
        shared = judged[best].rows & judged[number].rows
        p, u = shared & labelled, shared & ~labelled
        if not p.any() or not u.any():
            continue
        new, old = ((one.logits[p], one.logits[u]) for one in (judged[number], judged[best]))
        gain, error = auc_difference(new, old)
        same = judged[number].candidate.encoder == judged[best].candidate.encoder
        if gain > (SURE if same else QUITE_SURE) * error:
            best = number
    return best
