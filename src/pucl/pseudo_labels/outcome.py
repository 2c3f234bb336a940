"""PseudoLabels: a label, a probability and a reliability for every row, from probabilities, scores or a ranking."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch import device as Device

from pucl.ranking import Ranking
from pucl.ranking.rows import unlabelled_rows
from pucl.ranking.thresholds import threshold_for_share


@dataclass(frozen=True)
class PseudoLabels:
    """The result of a labeller for every row.

    Attributes:
        labels: pseudo-label, True for positive, (n,); of labelled positives always, of confirmed negatives never.
        probability: of being positive, within [0, 1], (n,); a label is positive where it is above one half.
        reliability: how far to trust the pseudo-label, within [0, 1], (n,); 1 for labelled and confirmed rows.
        prior: π, the share of positives among the unlabelled rows, given or estimated by the labeller.
        interval: of that estimate, (low, high), from the same scores; None where the labeller has none.
        score: of every row by models that did not see it, (n,); None where the labeller has none.
        negative: the confirmed negatives, (n,) bool, which are no part of the unlabelled rows; None without any.
    """

    labels: Tensor
    probability: Tensor
    reliability: Tensor
    prior: float
    interval: tuple[float, float] | None = None
    score: Tensor | None = None
    negative: Tensor | None = None

    @classmethod
    def from_probability(
        cls,
        probability: Tensor,
        labelled: Tensor,
        *,
        prior: float | None = None,
        interval: tuple[float, float] | None = None,
        negative: Tensor | None = None,
    ) -> "PseudoLabels":
        """Labels at one half, reliability as the distance from it; labelled and confirmed rows are certain."""
        certain = torch.where(labelled, torch.ones_like(probability), probability)
        if negative is not None:
            certain = torch.where(negative, torch.zeros_like(certain), certain)
        labels = certain > 0.5
        share = float(labels[unlabelled_rows(labelled, negative)].float().mean()) if prior is None else prior
        return cls(labels, certain, (2 * certain - 1).abs(), share, interval, negative=negative)

    @classmethod
    def from_scores(
        cls,
        score: Tensor,
        labelled: Tensor,
        *,
        prior: float,
        interval: tuple[float, float] | None = None,
        negative: Tensor | None = None,
    ) -> "PseudoLabels":
        """From scores that rank positives high, with a threshold above which a share π of the unlabelled rows lies.

            p_i = σ(f_i − q)

        where f is the score and q the threshold.
        """
        threshold = threshold_for_share(score[unlabelled_rows(labelled, negative)], prior)
        probability = torch.sigmoid(score - threshold)
        labels = cls.from_probability(probability, labelled, prior=prior, interval=interval, negative=negative)
        return replace(labels, score=score)

    @classmethod
    def from_ranking(cls, ranking: Ranking, labelled: Tensor, negative: Tensor | None = None) -> "PseudoLabels":
        """From the scores of a ranking and its π̂ with the interval."""
        value, interval = ranking.prior.value, (ranking.prior.low, ranking.prior.high)
        return cls.from_scores(ranking.score, labelled, prior=value, interval=interval, negative=negative)

    def unlabelled(self, labelled: Tensor) -> Tensor:
        """U, (n,) bool: the rows that are neither labelled positives (`labelled`) nor confirmed negatives."""
        return unlabelled_rows(labelled, self.negative)

    def only(self, rows: Tensor) -> "PseudoLabels":
        """Those of some rows, by a mask or by numbers; π̂ stays that of all."""
        return self._with(*(None if values is None else values[rows] for values in self._per_row()))

    def to(self, device: Device) -> "PseudoLabels":
        """The same on another device."""
        return self._with(*(None if values is None else values.to(device) for values in self._per_row()))

    def spread(self, among: Tensor) -> "PseudoLabels":
        """For more rows: these are the rows `among` (m,) marks; all others are labelled positives without a score."""
        labels, negative = torch.ones_like(among), torch.zeros_like(among)
        probability, reliability = (values.new_ones(len(among)) for values in (self.probability, self.reliability))
        labels[among], probability[among], reliability[among] = self.labels, self.probability, self.reliability
        score = None
        if self.score is not None:
            score = self.score.new_full((len(among),), torch.nan)
            score[among] = self.score
        if self.negative is not None:
            negative[among] = self.negative
        return self._with(labels, probability, reliability, score, None if self.negative is None else negative)

    def _per_row(self) -> tuple[Tensor | None, ...]:
        return self.labels, self.probability, self.reliability, self.score, self.negative

    def _with(self, *per_row: Tensor | None) -> "PseudoLabels":
        names = ("labels", "probability", "reliability", "score", "negative")
        changed: dict[str, Any] = dict(zip(names, per_row, strict=True))
        return replace(self, **changed)
