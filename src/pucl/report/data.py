"""The numbers behind the drawings: histogram, thresholds, map, lists and training curves as one JSON object."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pucl.models.evidence import Evidence
from pucl.report.axis import Floats, grid, sigmoid
from pucl.report.embed import numbers
from pucl.report.histogram import histogram
from pucl.report.history import series
from pucl.report.operating import OperatingPoints, operating_points
from pucl.report.reading import prior_of
from pucl.report.rows import rows_json
from pucl.selection.scores import pu_scores

PLACES = 10_000  # of the map in each direction
MAP_COLUMNS = 12
LIST_COLUMNS = 200
MAP_TEXT = 1_000_000  # bytes of ids and values
LIST_TEXT = 600_000


def page_data(about: Mapping[str, Any], evidence: Evidence) -> dict[str, Any]:
    """Everything the scripts of the page draw, but for the thumbnails; parts without rows are absent."""
    data: dict[str, Any] = {"history": series(about), "lists": {}}
    held = evidence.held_labelled
    if held.any() and not held.all() and len(evidence.quantiles):
        data |= _judged(about, evidence)
    if len(evidence.points):
        rows = rows_json(evidence.points, digits=4, most_columns=MAP_COLUMNS, most=MAP_TEXT)
        data["map"] = {**rows, **_places(np.asarray(evidence.place, np.float64))}
    for name, shown in (("top", evidence.top), ("unsure", evidence.unsure)):
        if len(shown):
            data["lists"][name] = rows_json(shown, digits=6, most_columns=LIST_COLUMNS, most=LIST_TEXT)
    return data


def thresholds(about: Mapping[str, Any], evidence: Evidence) -> OperatingPoints:
    """The operating points on the axis of the page."""
    score, quantiles = (np.asarray(part, np.float64) for part in (evidence.held_logit, evidence.quantiles))
    on = grid(np.concatenate([score, quantiles]))
    p, u = score[evidence.held_labelled], score[~evidence.held_labelled]
    return operating_points(on, p, u, quantiles, evidence.n_unlabelled, prior_of(about))


def _judged(about: Mapping[str, Any], evidence: Evidence) -> dict[str, Any]:
    """What needs held-out rows of both kinds."""
    prior, at = prior_of(about), thresholds(about, evidence)
    score, labelled = np.asarray(evidence.held_logit, np.float64), evidence.held_labelled
    bars = histogram(score[labelled], score[~labelled], at.threshold[0], at.threshold[-1])
    scores = pu_scores(score, labelled, prior=prior.value)
    separation = {
        "edges": numbers(bars.edges, 4),
        "labelled": numbers(bars.labelled, 5),
        "unlabelled": numbers(bars.unlabelled, 5),
        "counts": [int(labelled.sum()), int((~labelled).sum())],
        "prior": prior.value,
        "auc": [scores.auc.value, scores.auc.error],
        "pu_auc": [scores.pu_auc.value, scores.pu_auc.error],
        "pu_auc_at_most": 1 - prior.value / 2,
    }
    return {"separation": separation, "threshold": _as_json(at, evidence.n_unlabelled, prior.value)}


def _as_json(at: OperatingPoints, n_unlabelled: int, prior: float) -> dict[str, Any]:
    shares = ("precision", "recall", "f1", "precision_error", "recall_error", "f1_error")
    amounts = ("positives", "positives_low", "positives_high")
    return {
        "logit": numbers(at.threshold, 4),
        "probability": numbers(sigmoid(at.threshold), 6),
        "found": at.found.tolist(),
        **{name: numbers(getattr(at, name), 4) for name in shares},
        **{name: numbers(getattr(at, name), 1) for name in amounts},
        "half": at.half,
        "best": at.best,
        "n_unlabelled": int(n_unlabelled),
        "expected": prior * n_unlabelled,
    }


def _places(place: Floats) -> dict[str, Any]:
    """Places as whole numbers from 0 to PLACES, both directions on one scale."""
    low = place.min(axis=0)
    span = float((place.max(axis=0) - low).max()) or 1.0
    across, up = np.round((place - low) * (PLACES / span)).astype(int).T
    return {"across": across.tolist(), "up": up.tolist()}
