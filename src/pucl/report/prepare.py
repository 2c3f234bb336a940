"""Evidence as the page can use it: laid out in the plane, of matching lengths, without rows that are not finite."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from pucl.errors import Described, InputError, bad_argument
from pucl.models.evidence import Evidence, Shown

MOST_POINTS = 5_000
MOST_LISTED = 1_000
FEWEST = 10  # points below which the two main directions are enough
FEW = 2_000  # up to which one thread lays them out
PERPLEXITY = 30.0


def lay_out(evidence: Evidence, seed: int = 0) -> Evidence:
    """The evidence with its points laid out by t-SNE; as it is when that was done before."""
    if evidence.embedding is None:
        return evidence
    z, place = evidence.embedding.astype(np.float32), evidence.place
    if len(z) > FEWEST:
        from sklearn.manifold import TSNE

        perplexity = min(PERPLEXITY, (len(z) - 1) / 3)
        layout = TSNE(init="pca", perplexity=perplexity, random_state=seed)
        # A thousand short parallel steps: with few rows, threads mostly wait for one another.
        with threadpool_limits(1 if len(z) <= FEW else None):
            place = np.asarray(layout.fit_transform(z), np.float32)
    return replace(evidence, place=place, embedding=None)


def usable(evidence: Evidence) -> Evidence:
    """`evidence` without rows whose numbers are not finite; parts that do not fit together are one clear error."""
    for name in ("points", "top", "unsure"):
        _check_shown(name, getattr(evidence, name))
    if len(evidence.points) > MOST_POINTS:
        raise _bad("points", f"at most {MOST_POINTS:,} rows", len(evidence.points))
    if evidence.place.shape != (len(evidence.points), 2):
        raise _bad("place", f"of shape ({len(evidence.points)}, 2)", evidence.place.shape)
    if evidence.held_logit.shape != evidence.held_labelled.shape:
        raise _bad("held_labelled", f"of shape {evidence.held_logit.shape}", evidence.held_labelled.shape)
    shown = np.isfinite(evidence.place).all(axis=1) & np.isfinite(evidence.points.probability)
    held = np.isfinite(evidence.held_logit)
    return replace(
        evidence,
        points=_take(evidence.points, shown),
        place=evidence.place[shown],
        top=_take(evidence.top, _listed(evidence.top)),
        unsure=_take(evidence.unsure, _listed(evidence.unsure)),
        held_logit=evidence.held_logit[held],
        held_labelled=evidence.held_labelled[held],
        quantiles=np.sort(evidence.quantiles[np.isfinite(evidence.quantiles)]),
    )


def _listed(shown: Shown) -> NDArray[np.bool_]:
    return np.isfinite(shown.probability) & (np.arange(len(shown)) < MOST_LISTED)


def _check_shown(name: str, shown: Shown) -> None:
    count = len(shown)
    parts: dict[str, Any] = {"row": shown.row, "probability": shown.probability, "labelled": shown.labelled}
    if shown.pictures is not None:
        parts["pictures"] = shown.pictures
        if shown.pictures.ndim != 4 or shown.pictures.shape[3] not in (1, 3) or shown.pictures.dtype != np.uint8:
            got = f"{shown.pictures.dtype} of shape {shown.pictures.shape}"
            raise _bad(f"{name}.pictures", "uint8 of shape (k, h, w, 1 or 3)", got)
    for key, part in {**parts, **(shown.values or {})}.items():
        if len(part) != count:
            raise _bad(f"{name}.{key}", f"of length {count}", f"length {len(part)}")


def _bad(part: str, allowed: str, got: object) -> InputError:
    return bad_argument("pucl.report", f"evidence.{part}", allowed, Described(str(got)))


def _take(shown: Shown, kept: NDArray[np.bool_]) -> Shown:
    """The rows of `shown` that a mask (k,) keeps."""
    if kept.all():
        return shown
    chosen = np.flatnonzero(kept)
    return replace(
        shown,
        ids=tuple(shown.ids[i] for i in chosen),
        row=shown.row[chosen],
        probability=shown.probability[chosen],
        labelled=shown.labelled[chosen],
        pictures=None if shown.pictures is None else shown.pictures[chosen],
        values={name: tuple(column[i] for i in chosen) for name, column in (shown.values or {}).items()},
    )
