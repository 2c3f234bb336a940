"""PseudoLabels: a label, a probability and a reliability for every row, from probabilities, scores or a ranking."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pucl.ranking import Ranking
from pucl.ranking.thresholds import threshold_for_share


@dataclass(frozen=True)
class PseudoLabels:
    """The result of a labeller for every row.

    Attributes:
        labels: pseudo-label, True for positive, (n,); labelled positives are always positive.
        probability: of being positive, within [0, 1], (n,); a label is positive where it is above one half.
        reliability: how far to trust the pseudo-label, within [0, 1], (n,); labelled positives have 1.
        prior: π, the share of positives among the unlabelled rows, given or estimated by the labeller.
        interval: of that estimate, (low, high), from the same scores; None where the labeller has none.
        score: of every row by models that did not see it, (n,); None where the labeller has none.
    """

    labels: Tensor
    probability: Tensor
    reliability: Tensor
    prior: float
    interval: tuple[float, float] | None = None
    score: Tensor | None = None

    @classmethod
    def from_probability(
        cls,
        probability: Tensor,
        labelled: Tensor,
        *,
        prior: float | None = None,
        interval: tuple[float, float] | None = None,
    ) -> "PseudoLabels":
        """Labels at one half, reliability as the distance from it; labelled rows are certain."""
        certain = torch.where(labelled, torch.ones_like(probability), probability)
        labels = certain > 0.5
        share = float(labels[~labelled].float().mean()) if prior is None else prior
        return cls(labels, certain, (2 * certain - 1).abs(), share, interval)

    @classmethod
    def from_scores(
        cls, score: Tensor, labelled: Tensor, *, prior: float, interval: tuple[float, float] | None = None
    ) -> "PseudoLabels":
        """From scores that rank positives high, with a threshold above which a share π of the unlabelled rows lies.

            p_i = σ(f_i − q)

        where f is the score and q the threshold.
        """
        probability = torch.sigmoid(score - threshold_for_share(score[~labelled], prior))
        return replace(cls.from_probability(probability, labelled, prior=prior, interval=interval), score=score)

    @classmethod
    def from_ranking(cls, ranking: Ranking, labelled: Tensor) -> "PseudoLabels":
        """From the scores of a ranking and its π̂ with the interval."""
        prior = ranking.prior
        return cls.from_scores(ranking.score, labelled, prior=prior.value, interval=(prior.low, prior.high))

    def only(self, rows: Tensor) -> "PseudoLabels":
        """Those of some rows, by a mask or by numbers; π̂ stays that of all."""
        return replace(
            self,
            labels=self.labels[rows],
            probability=self.probability[rows],
            reliability=self.reliability[rows],
            score=None if self.score is None else self.score[rows],
        )

    def spread(self, among: Tensor) -> "PseudoLabels":
        """For more rows: these are the rows `among` (m,) marks; all others are labelled positives without a score."""
        labels = torch.ones_like(among)
        probability, reliability = (values.new_ones(len(among)) for values in (self.probability, self.reliability))
        labels[among], probability[among], reliability[among] = self.labels, self.probability, self.reliability
        score = None
        if self.score is not None:
            score = self.score.new_full((len(among),), torch.nan)
            score[among] = self.score
        return replace(self, labels=labels, probability=probability, reliability=reliability, score=score)
