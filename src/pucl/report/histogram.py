"""Densities of the scores of held-out labelled and unlabelled rows over the same bins."""

from dataclasses import dataclass

import numpy as np

from pucl.report.axis import Floats

FEWEST_BINS, MOST_BINS = 10, 40


@dataclass(frozen=True)
class Histogram:
    """Densities per unit of the logit; each integrates to 1.

    Attributes:
        edges: of the b bins, (b + 1,).
        labelled: density of the labelled rows, (b,).
        unlabelled: density of the unlabelled rows, (b,).
    """

    edges: Floats
    labelled: Floats
    unlabelled: Floats


def histogram(labelled: Floats, unlabelled: Floats, low: float, high: float) -> Histogram:
    """Both densities on bins from `low` to `high`; scores beyond are counted in the outermost bins."""
    bins = int(np.clip(1.5 * np.sqrt(min(len(labelled), len(unlabelled))), FEWEST_BINS, MOST_BINS))
    edges = np.linspace(low, high, bins + 1)
    return Histogram(edges, _density(labelled, edges), _density(unlabelled, edges))


def _density(scores: Floats, edges: Floats) -> Floats:
    counts, _ = np.histogram(np.clip(scores, edges[0], edges[-1]), bins=edges)
    return np.asarray(counts / (len(scores) * np.diff(edges)))
