"""pseudo_label: from embeddings and PU labels to pseudo-labels, by any labeller."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pucl.deprecation import renamed_arguments
from pucl.errors import Described, bad_argument, check_count, check_share, signed_by
from pucl.labels import check_labels, check_negatives
from pucl.numerics.floats import as_tensor, check_finite, in_range
from pucl.pseudo_labels.labellers import find_labeller, renamed_options
from pucl.pseudo_labels.outcome import PseudoLabels
from pucl.ranking import DEFAULT_RANKER, Ranking

OWNER = "pucl.pseudo_label"
OTHERS = "other_embeddings"


@renamed_arguments(OWNER, told="seen_by_encoder", beside=OTHERS)
@signed_by(OWNER)
def pseudo_label(
    z: Any,
    s: Any,
    *,
    method: str = "auto",
    prior: float | None = None,
    negatives: Any | None = None,
    seen_by_encoder: Any | None = None,
    other_embeddings: Sequence[Any] | None = None,
    seed: int = 0,
    **options: Any,
) -> PseudoLabels:
    """Pseudo-label every row of an embedding.

    A strong encoder can memorise the labelled rows it is trained with and separate them from the positives inside U;
    then too few rows are labelled positive and π̂ is too low. Train the encoder with some of the labels only, and pass
    these rows as `seen_by_encoder`: they stay positive, but only the other labelled rows stand for the positives.

    Args:
        z: embeddings (n, k), finite.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        method: a registered ranker or pseudo-labeller, or ``"auto"``.
        prior: π, the share of positives among the unlabelled rows; when not given, estimated by methods that need it.
        negatives: rows known to be negative, a mask (n,) or row numbers. They are labelled negative for certain, no
            part of U, and negatives in every model that scores the others.
        seen_by_encoder: a mask (n,) of the rows whose label the encoder was trained with, if these are not all
            labelled rows.
        other_embeddings: of the same rows, such as the rows themselves (n, k'), for a method that can weigh several
            against each other: ``"stacked"``, the default.
        seed: of whatever is random in the method.
        options: what else the method takes.
    """
    rows = _check_embedding("z", z)
    observed = check_labels(s, n_rows=len(rows), owner=OWNER)
    confirmed = check_negatives(negatives, observed, len(rows), OWNER)
    labelled = torch.from_numpy(observed).to(rows.device)
    negative = None if confirmed is None else torch.from_numpy(confirmed).to(rows.device)
    if prior is not None:
        check_share(OWNER, "prior", prior)
    check_count(OWNER, "seed", seed, low=0)
    entry = find_labeller(method)
    others = [] if other_embeddings is None else _check_others(other_embeddings, rows)
    if others and OTHERS not in inspect.signature(entry.function).parameters:
        raise bad_argument(OWNER, OTHERS, f"given with a method that takes it, such as {DEFAULT_RANKER!r}", entry.name)
    unseen = None if seen_by_encoder is None else ~_check_seen(seen_by_encoder, labelled)
    if unseen is not None:
        rows, labelled, others = rows[unseen], labelled[unseen], [embedding[unseen] for embedding in others]
        negative = None if negative is None else negative[unseen]
    more: dict[str, Any] = {OTHERS: others} if others else {}
    if negative is not None:
        more["negative"] = negative
    options = renamed_options(OWNER, entry, options)
    outcome = entry.function(rows, labelled, prior=prior, seed=seed, **more, **options)
    ranked = isinstance(outcome, Ranking)
    pseudo: PseudoLabels = PseudoLabels.from_ranking(outcome, labelled, negative) if ranked else outcome
    return pseudo if unseen is None else pseudo.spread(unseen)


def _check_embedding(argument: str, given: Any) -> Tensor:
    try:
        rows = as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        got = Described(f"a {type(given).__name__} that holds no such matrix")
        raise bad_argument(OWNER, argument, "a floating-point matrix (n, k)", got) from None
    if rows.ndim != 2 or not rows.is_floating_point():
        got = Described(f"{rows.dtype} of shape {tuple(rows.shape)}")
        raise bad_argument(OWNER, argument, "a floating-point matrix (n, k)", got)
    if rows.dtype in (torch.bfloat16, torch.float16):
        rows = rows.float()
    check_finite(OWNER, argument, rows)
    if (rows == rows[:1]).all():
        got = Described("all rows equal" if len(rows) else "no rows")
        raise bad_argument(OWNER, argument, "at least two different rows", got)
    return in_range(rows)


def _check_others(given: Any, z: Tensor) -> list[Tensor]:
    """The other embeddings, of as many rows as z and on its device."""
    if not isinstance(given, list | tuple):
        raise bad_argument(OWNER, OTHERS, "a list of matrices", Described(type(given).__name__))
    others = [_check_embedding(f"{OTHERS}[{number}]", rows).to(z.device) for number, rows in enumerate(given)]
    for number, rows in enumerate(others):
        if len(rows) != len(z):
            allowed = f"a matrix of {len(z)} rows, as many as z has"
            raise bad_argument(OWNER, f"{OTHERS}[{number}]", allowed, Described(f"{len(rows)} rows"))
    return others


def _check_seen(given: Any, labelled: Tensor) -> Tensor:
    rows, argument = torch.as_tensor(given), "seen_by_encoder"
    if rows.dtype != torch.bool or rows.shape != labelled.shape:
        got = Described(f"{rows.dtype} of shape {tuple(rows.shape)}")
        raise bad_argument(OWNER, argument, f"a mask of length {len(labelled)}, one per row of z", got)
    rows = rows.to(labelled.device)
    if bool((rows & ~labelled).any()) or not bool((labelled & ~rows).any()):
        got = Described(f"{int((rows & ~labelled).sum())} unlabelled and {int((rows & labelled).sum())} labelled rows")
        raise bad_argument(OWNER, argument, f"some of the {int(labelled.sum())} labelled rows, not all of them", got)
    return rows
