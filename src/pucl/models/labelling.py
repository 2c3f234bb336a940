"""From scores to labels: the model's own threshold, another one, or what a wanted recall, precision or number needs."""

import math
from dataclasses import dataclass

import numpy as np

from pucl.errors import Described, bad_argument, check_count, check_share
from pucl.models.model import Model
from pucl.selection.thresholds import precision_threshold, recall_threshold

OWNER = "pucl.score"


@dataclass(frozen=True)
class LabelRule:
    """Which rows are labelled positive; at most one field is given, and none means the model's own threshold.

    Attributes:
        threshold: rows whose probability is above it.
        top: so many rows, the best.
        recall: the rows above the threshold that finds this share of the hidden positives.
        precision: the rows above the lowest threshold at which this share of them should be positive.
    """

    threshold: float | None = None
    top: int | None = None
    recall: float | None = None
    precision: float | None = None

    def checked(self, model: Model, *, owner: str = OWNER) -> "LabelRule":
        """The rule itself, if it makes sense for the model; one error otherwise."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if len(given) > 1:
            allowed = "given one at a time"
            raise bad_argument(owner, " and ".join(given), allowed, Described("more than one of them"))
        if self.top is not None:
            check_count(owner, "top", self.top)
        if self.threshold is not None:
            check_share(owner, "threshold", self.threshold)
            if model.record.prior.is_bound:
                allowed = "left out where the share of positives is only bounded and there are no probabilities"
                raise bad_argument(owner, "threshold", f"{allowed} (use top= or recall=)", self.threshold)
        return self

    def logit(self, model: Model, *, owner: str = OWNER) -> float:
        """The threshold of the model's logits."""
        if self.threshold is not None:
            return math.log(self.threshold / (1 - self.threshold))
        if self.recall is None and self.precision is None:
            return 0.0
        return threshold_for(model, recall=self.recall, precision=self.precision, owner=owner)

    def in_words(self, model: Model) -> str:
        """The rule as a user reads it."""
        if self.top is not None:
            return f"the {self.top:,} best"
        if self.recall is not None:
            return f"above the threshold that finds {self.recall:.0%} of hidden positives"
        if self.precision is not None:
            return f"above the threshold where {self.precision:.0%} should be positive"
        if model.record.prior.is_bound:
            return "above the model's own threshold"
        return f"probability above {0.5 if self.threshold is None else self.threshold:g}"


def threshold_for(
    model: Model, *, recall: float | None = None, precision: float | None = None, owner: str = OWNER
) -> float:
    """The threshold of the model's logits for a wanted recall or a wanted precision, from rows held out of its fit.

    Recall needs no π. Precision is an estimate that rests on π, and is refused where π is only bounded.

    Args:
        model: a fitted one, with its evidence.
        recall: share of the positives to find.
        precision: share of positives among the rows called positive.
        owner: whom errors name.
    """
    if (recall is None) == (precision is None):
        got = Described("both" if recall is not None else "neither")
        raise bad_argument(owner, "recall and precision", "given one at a time", got)
    evidence, prior = model.evidence, model.record.prior
    held = None if evidence is None else evidence.held_labelled
    if evidence is None or held is None or not held.any() or held.all():
        got = Described("one without")
        raise bad_argument(owner, "the model", "one with held-out positives for a recall or a precision", got)
    logits = np.asarray(evidence.held_logit, np.float64)
    if recall is not None:
        return recall_threshold(logits, held, recall, owner=owner)
    if prior.is_bound:
        allowed = f"left out where the share of positives is only bounded (at most {prior.high:.0%})"
        raise bad_argument(owner, "precision", f"{allowed}: fit with prior= if you know it, or use recall=", precision)
    return precision_threshold(logits, held, float(precision), prior=prior.cautious, owner=owner)  # type: ignore[arg-type]
