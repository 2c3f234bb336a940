"""What a report shows of a fit: points, likely and uncertain rows, held-out scores."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pucl.data.own.batch import Table
from pucl.data.own.values import values_as_text
from pucl.encoders.inputs import to_float
from pucl.fitting.explain import explain
from pucl.fitting.fit import FitResult
from pucl.models.evidence import Evidence, Floats, Shown, keys_of
from pucl.numerics.pca import exact_axes

POINTS, LISTED, QUANTILES = 5000, 200, 2001
BYTES = 24 << 20  # of thumbnails that are kept
LARGEST, SMALLEST = 96, 16  # pixels of a thumbnail's longer side
WIDTH = 128  # numbers of an embedding that are kept for laying out the points


def gather(
    fitted: FitResult, rows: Tensor, labelled: NDArray[np.bool_], *, content: Any = None, ids: Any = None
) -> Evidence:
    """Choose what is kept, all of it rows of P and U: confirmed negatives are neither shown nor counted.

    The lists leave out rows that reviewers have answered.

    Args:
        fitted: what `fit` returned.
        rows: as the encoder takes them, (n, …).
        labelled: s.
        content: the rows as they came, where they are a `Table`: its values are shown.
        ids: what the rows are called; their numbers when not given.
    """
    logits = fitted.logits
    probability = torch.sigmoid(torch.from_numpy(logits)).numpy().astype(np.float32)
    names = np.arange(len(labelled)) if ids is None else np.asarray(ids, dtype=object)
    in_p_or_u = _in_p_or_u(fitted)
    unlabelled = np.flatnonzero(in_p_or_u & ~labelled)
    scores = logits[unlabelled]
    unanswered = unlabelled if fitted.answered is None else unlabelled[fitted.answered[unlabelled] == 0]
    top = unanswered[np.argsort(-logits[unanswered], kind="stable")[:LISTED]]
    unsure = unanswered[np.argsort(np.abs(logits[unanswered]), kind="stable")[:LISTED]]
    points = _points(np.flatnonzero(labelled), unlabelled, fitted.model.record.seed)

    table = content if isinstance(content, Table) else None

    def shown(index: NDArray[np.intp], *, side: int) -> Shown:
        return Shown(
            tuple(str(name) for name in names[index]),
            index.astype(np.int64),
            probability[index],
            labelled[index],
            _pictures(rows, index, side) if rows.ndim == 4 else None,
            {name: values_as_text(table, name, index) for name in table.values} if table is not None else None,
        )

    judged = fitted.judged.rows & in_p_or_u
    z = fitted.z[torch.from_numpy(points)]
    if z.shape[1] > WIDTH:
        z = _main_directions(z, WIDTH)
    listed = shown(top, side=LARGEST)
    return Evidence(
        points=shown(points, side=_side(len(points), rows)),
        place=_main_directions(z, 2).numpy().astype(np.float32),
        top=listed,
        unsure=shown(unsure, side=LARGEST),
        held_logit=(fitted.judged.logits[judged] / fitted.model.head.temperature).astype(np.float32),
        held_labelled=labelled[judged],
        quantiles=_thinned(np.sort(scores)),
        n_unlabelled=len(unlabelled),
        embedding=z.half().numpy(),
        keys=keys_of(names.tolist()),
        shown=fitted.seen_by_encoder,
        explained=() if table is None else explain(fitted.model, rows, table, top, unlabelled, listed.ids),
    )


def _in_p_or_u(fitted: FitResult) -> NDArray[np.bool_]:
    """All rows but the confirmed negatives and those a random sample was given besides, (n,) bool."""
    negative = fitted.pseudo.negative
    free = np.ones(len(fitted.logits), dtype=bool) if negative is None else ~negative.cpu().numpy()
    return free if fitted.extra is None else free & ~fitted.extra


def _points(p: NDArray[np.intp], u: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Rows of the scatter: labelled ones, at most half of them all, and unlabelled ones drawn at random."""
    rng = np.random.default_rng(seed)
    n_p = min(len(p), max(POINTS // 2, POINTS - len(u)))
    kept = [rng.permutation(p)[:n_p], rng.permutation(u)[: POINTS - n_p]]
    return np.sort(np.concatenate(kept))


def _side(n: int, rows: Tensor) -> int:
    """The side of the thumbnails of n points, so that they stay within the bytes allowed."""
    channels = rows.shape[1] if rows.ndim == 4 else 1
    return int(np.clip((BYTES / (n * channels)) ** 0.5, SMALLEST, LARGEST))


def _pictures(rows: Tensor, index: NDArray[np.intp], side: int) -> NDArray[np.uint8]:
    """Thumbnails (k, h, w, c) no larger than `side`, of one or three channels."""
    images = to_float(rows[torch.from_numpy(index)]).clamp(0, 1)
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1]
    height, width = images.shape[2:]
    shrink = side / max(height, width)
    if shrink < 1:
        size = (max(1, round(height * shrink)), max(1, round(width * shrink)))
        images = F.interpolate(images, size=size, mode="bilinear", antialias=True)
    return (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def _main_directions(z: Tensor, k: int) -> Tensor:
    """The rows in their k directions of largest spread, (n, k); zeros where there are fewer."""
    centred = z - z.mean(dim=0)
    axes, _ = exact_axes(centred.T.double() @ centred.double())
    along = centred.double() @ axes.flip(1)[:, :k]
    return F.pad(along, (0, k - along.shape[1])).float()


def _thinned(ordered: NDArray[np.float64]) -> Floats:
    """At most `QUANTILES` of the sorted values, the first and the last among them, evenly by rank."""
    if len(ordered) > QUANTILES:
        ordered = ordered[np.linspace(0, len(ordered) - 1, QUANTILES).round().astype(int)]
    return ordered.astype(np.float32)
