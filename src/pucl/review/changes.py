"""What a new fit changed: π, scores of hidden positives, labels, rows that are new, and answers that look wrong."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pucl.data.own import OwnData
from pucl.data.own.batch import load
from pucl.errors import some
from pucl.fitting.from_files import FittedFiles
from pucl.models.describe import bound_in_words
from pucl.models.evidence import keys_of
from pucl.models.model import Model
from pucl.priors import PriorEstimate
from pucl.review.drift import Drift, drift
from pucl.selection.scores import Estimate

HIGHER, LOWER = 0.5, 0.05  # shares of P: a "no" above so many of them, or a "yes" above no more than these, looks wrong
NAMED = 10  # ids that a line names
PROJECTED = 512  # numbers of an image or a vector that are looked at


@dataclass(frozen=True)
class Doubt:
    """An answer that the model strongly disagrees with: `above` is the share of labelled positives below its score."""

    id: str
    answer: str
    above: float


@dataclass(frozen=True)
class Changes:
    """What changed between two models, and what is odd about the answers.

    Attributes:
        prior: π now, with its interval, or its bound.
        auc: AUC of hidden positives against unlabelled rows now; None where too few could be hidden.
        prior_before: π of the model before; None without one, and so are the next three.
        auc_before: its AUC.
        to_positive: how many rows were called negative before and are called positive now.
        to_negative: the other way round.
        n_rows: how many rows were compared.
        drift: new rows against old ones; None where there are too few of either.
        answered: how many answers count.
        contradictions: ids that were called positive and negative.
        doubts: answers that the model strongly disagrees with, the strongest first.
    """

    prior: PriorEstimate
    auc: Estimate | None
    n_rows: int
    prior_before: PriorEstimate | None = None
    auc_before: Estimate | None = None
    to_positive: int = 0
    to_negative: int = 0
    drift: Drift | None = None
    answered: int = 0
    contradictions: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        before, lines = self.prior_before, []
        if before is not None:
            lines += [
                f"Positives among the unlabelled rows: {_share(before)} → {_share(self.prior)}",
                f"AUC of hidden positives: {_figure(self.auc_before)} → {_figure(self.auc)}",
                f"Labels: {self.to_positive + self.to_negative:,} of {self.n_rows:,} rows changed "
                f"({self.to_positive:,} to positive, {self.to_negative:,} to negative)",
            ]
        if self.drift is not None:
            lines.append(str(self.drift))
        if self.answered:
            lines.append(f"Answers that count: {self.answered:,}")
        if self.contradictions:
            named = some(self.contradictions, NAMED)
            lines.append(f"Answers that contradict each other, left out and asked again: {named}")
        lines += [_doubted(doubt) for doubt in self.doubts[:NAMED]]
        if len(self.doubts) > NAMED:
            lines.append(f"… and {len(self.doubts) - NAMED:,} more answers that the model strongly disagrees with")
        return "\n".join(lines)


def _share(prior: PriorEstimate) -> str:
    if prior.is_bound:
        return bound_in_words(prior).partition(",")[0]
    return f"{prior.value:.3f} ({prior.low:.3f} to {prior.high:.3f})"


def _figure(measured: Estimate | None) -> str:
    return "not known" if measured is None else str(measured)


def _doubted(doubt: Doubt) -> str:
    below = doubt.answer == "positive"
    rank = f"lower than {100 * (1 - doubt.above):.0f} %" if below else f"higher than {100 * doubt.above:.0f} %"
    return f"Answer to check: {doubt.id} was called {doubt.answer}, but scores {rank} of the labelled positives"


def changes(fitted: FittedFiles, contradictions: Sequence[str] = (), *, seed: int = 0) -> Changes:
    """What a fit changed against the model it started from, and which of its answers look wrong."""
    model, data, before = fitted.model, fitted.data, fitted.before
    metrics = model.record.metrics
    answered = 0 if fitted.answers is None else int(np.isfinite(fitted.answers).sum())
    found = Changes(
        model.record.prior, None if metrics is None else metrics.pu_auc, model.record.rows.n, answered=answered,
        contradictions=tuple(contradictions), doubts=tuple(doubts(fitted)),
    )  # fmt: skip
    if before is None:
        return found
    content = load(data.rows)
    rows_before, rows_now = before.schema.encode(content), model.schema.encode(content)
    counted = np.ones(len(data), dtype=bool) if data.extra is None else ~data.extra
    was, now = (_called(each, rows) & counted for each, rows in ((before, rows_before), (model, rows_now)))
    return replace(
        found,
        prior_before=before.record.prior,
        auc_before=None if before.record.metrics is None else before.record.metrics.pu_auc,
        to_positive=int((now & ~was).sum()),
        to_negative=int((was & ~now).sum()),
        drift=drift_of(before, data, rows_before, seed=seed),
    )


def _called(model: Model, rows: Tensor) -> NDArray[np.bool_]:
    """Which rows a model calls positive, (n,)."""
    return (model.logits(rows) > 0).numpy()


def drift_of(model: Model, data: OwnData, rows: Tensor, *, seed: int = 0) -> Drift | None:
    """Rows that a model did not learn from against those it did, known by their ids; None where that is not known.

    A model that learned from a sample does not know the other rows of its source.
    """
    evidence = model.evidence
    if evidence is None or evidence.keys is None or model.record.sampling is not None:
        return None
    new = ~np.isin(keys_of(data.ids.tolist()), evidence.keys)
    if not new.any() or new.all():
        return None
    features = model.schema.features(rows) if model.schema.kind == "table" else model.embed(rows)
    return drift(features[:, :PROJECTED].numpy(), new, seed=seed)


def doubts(fitted: FittedFiles) -> list[Doubt]:
    """Answers that a model strongly disagrees with, by scores of models that did not see the row wherever there are.

    A row called negative that scores above half of the labelled positives, or a row called positive that scores below
    nearly all of them and is called negative by the model.
    """
    if fitted.answers is None:
        return []
    positive = np.sort(fitted.logits[fitted.data.s])
    rows = np.flatnonzero(np.isfinite(fitted.answers))
    above = np.searchsorted(positive, fitted.logits[rows]) / max(1, len(positive))
    yes = fitted.answers[rows] > 0
    odd = np.where(yes, (above <= LOWER) & (fitted.logits[rows] < 0), above >= HIGHER)
    strength = np.where(yes, 1 - above, above)
    order = [k for k in np.argsort(-strength, kind="stable") if odd[k]]
    ids = fitted.data.ids
    return [Doubt(str(ids[rows[k]]), "positive" if yes[k] else "negative", float(above[k])) for k in order]
