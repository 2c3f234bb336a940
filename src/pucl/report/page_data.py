"""The numbers behind the drawings: histogram, thresholds, map, lists and training curves as one JSON object."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.models.evidence import Evidence, Shown
from pucl.models.record import EpochRecord, FitRecord
from pucl.report.markup import Markup, shorten
from pucl.report.operating import Floats, OperatingPoints, grid, histogram, operating_points, sigmoid
from pucl.selection.scores import pu_scores, ranking_scores

PLACES = 10_000  # of the map in each direction
MAP_COLUMNS = 12
LIST_COLUMNS = 200
MAP_TEXT = 1_000_000  # bytes of ids and values
LIST_TEXT = 600_000
MAX_EPOCHS = 400  # points of a training curve
ID_LENGTHS = (400, 200, 100, 50, 25, 12)
LONGEST_NAME = 60
LONGEST_VALUE = 80
# Inside JSON these five only occur in texts, where the escapes mean the same.
_DANGEROUS = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def page_data(record: FitRecord, evidence: Evidence) -> dict[str, Any]:
    """Everything the scripts of the page draw, but for the thumbnails; parts without rows are absent."""
    varying = [curve for curve in series(record.history) if is_varying(curve["values"])]
    data: dict[str, Any] = {"bounded": record.prior.is_bound, "history": varying, "lists": {}}
    held = evidence.held_labelled
    if held.any() and not held.all() and len(evidence.quantiles) and is_varying(evidence.held_logit):
        data |= _judged(record, evidence)
    if len(evidence.points) and is_varying(evidence.place):
        rows = rows_json(evidence.points, digits=4, max_columns=MAP_COLUMNS, max_bytes=MAP_TEXT)
        data["map"] = {**rows, **_places(np.asarray(evidence.place, np.float64))}
    for kind, shown in (("top", evidence.top), ("unsure", evidence.unsure)):
        if len(shown):
            data["lists"][kind] = rows_json(shown, digits=6, max_columns=LIST_COLUMNS, max_bytes=LIST_TEXT)
    return data


def is_varying(values: Any) -> bool:
    """Whether some of the numbers, or rows of numbers, differ, so that there is something to draw; one alone may be."""
    return len(values) == 1 or bool(np.ptp(np.asarray(values, np.float64), axis=0).max() > 0)


def not_drawn(record: FitRecord, evidence: Evidence) -> dict[str, str]:
    """A sentence for every section whose drawing would show one value only."""
    same = [curve for curve in series(record.history) if not is_varying(curve["values"])]
    words = {}
    if same:
        listed = ", ".join(f"{curve['name'].replace('_', ' ')} {curve['values'][0]:g}" for curve in same)
        words["training"] = f"Not drawn, because they are the same in all epochs: {listed}."
    held = evidence.held_labelled
    if held.any() and not held.all() and not is_varying(evidence.held_logit):
        words["separation"] = "Not drawn: all held-out rows have the same score, so there is no threshold to choose."
    if len(evidence.points) and not is_varying(evidence.place):
        words["map"] = "Not drawn: all rows have the same embedding."
    return words


def thresholds(record: FitRecord, evidence: Evidence) -> OperatingPoints:
    """The operating points on the axis of the page."""
    score, quantiles = (np.asarray(part, np.float64) for part in (evidence.held_logit, evidence.quantiles))
    axis = grid(np.concatenate([score, quantiles]))
    p, u = score[evidence.held_labelled], score[~evidence.held_labelled]
    return operating_points(axis, p, u, quantiles, evidence.n_unlabelled, record.prior)


def _judged(record: FitRecord, evidence: Evidence) -> dict[str, Any]:
    """What needs held-out rows of both kinds."""
    prior, at = record.prior, thresholds(record, evidence)
    score, labelled = np.asarray(evidence.held_logit, np.float64), evidence.held_labelled
    bars = histogram(score[labelled], score[~labelled], at.threshold[0], at.threshold[-1])
    scores = ranking_scores(score, labelled)
    corrected = None if prior.is_bound else pu_scores(score, labelled, prior=prior.cautious).auc
    separation = {
        "edges": numbers(bars.edges, 4),
        "labelled": numbers(bars.labelled, 5),
        "unlabelled": numbers(bars.unlabelled, 5),
        "counts": [int(labelled.sum()), int((~labelled).sum())],
        "prior": prior.value,
        "auc": None if corrected is None else [corrected.value, corrected.error],
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
        "called": at.called.tolist(),
        **{name: numbers(getattr(at, name), 4) for name in shares},
        **{name: numbers(getattr(at, name), 1) for name in amounts},
        "lift": numbers(at.lift, 2),
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


def series(history: Sequence[EpochRecord]) -> list[dict[str, Any]]:
    """Name, epochs and values of each series, the loss first; series with fewer than two numbers are left out."""
    chosen = np.unique(np.linspace(0, len(history) - 1, min(len(history), MAX_EPOCHS)).round().astype(int))
    kept = [(float(history[i].epoch), history[i].numbers()) for i in chosen]
    names = sorted({name for _, numbers in kept for name in numbers}, key=lambda name: (name != "loss", name))
    curves = (_curve(name, [(at, row[name]) for at, row in kept if name in row]) for name in names)
    return [curve for curve in curves if len(curve["values"]) > 1]


def _curve(name: str, points: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "name": name,
        "epochs": [at for at, _ in points],
        "values": [float(f"{value:.6g}") for _, value in points],
    }


def rows_json(shown: Shown, *, digits: int, max_columns: int, max_bytes: int) -> dict[str, Any]:
    """Ids, row numbers, probabilities, s and as many columns as fit; ids are shortened before columns are left out.

    Args:
        shown: the rows, with finite probabilities.
        digits: decimals of the probabilities.
        max_columns: columns kept at most.
        max_bytes: bytes that ids and columns may take together.
    """
    ids = _fitting(shown.ids, max_bytes)
    values = shown.values or {}
    kept = _columns(values, max_columns, max_bytes - size(ids))
    return {
        "id": ids,
        "row": shown.row.tolist(),
        "probability": numbers(shown.probability, digits),
        "labelled": shown.labelled.astype(int).tolist(),
        "columns": [name for name, _ in kept],
        "values": [column for _, column in kept],
        "columns_left_out": len(values) - len(kept),
    }


def _fitting(texts: Sequence[str], max_bytes: int) -> list[str]:
    """Texts as long as they may be together."""
    for longest in ID_LENGTHS:
        short = [shorten(text, longest) for text in texts]
        if size(short) <= max_bytes:
            return short
    return short


def _columns(values: dict[str, tuple[str, ...]], max_columns: int, max_bytes: int) -> list[tuple[str, list[str]]]:
    kept: list[tuple[str, list[str]]] = []
    for name, column in list(values.items())[:max_columns]:
        short = (shorten(name, LONGEST_NAME), [shorten(value, LONGEST_VALUE) for value in column])
        max_bytes -= size(short)
        if max_bytes < 0:
            break
        kept.append(short)
    return kept


def as_json(value: Any) -> Markup:
    """`value` as compact JSON that may stand inside ``<script type="application/json">``."""
    return Markup(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_DANGEROUS))


def size(value: Any) -> int:
    """Bytes that `value` takes on the page."""
    return len(as_json(value).encode())


def numbers(values: NDArray[Any], digits: int) -> list[float | None]:
    """Numbers rounded to `digits` decimals; those that are not finite become null."""
    rounded = np.round(np.asarray(values, np.float64), digits).tolist()
    return [value if np.isfinite(value) else None for value in rounded]
