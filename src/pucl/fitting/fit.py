"""From rows and s to a model, stage by stage."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.device import pick_device
from pucl.errors import bad_argument
from pucl.fitting.average import fast_first
from pucl.fitting.calibrate import calibrate_head
from pucl.fitting.compare import Judged, compare, with_share
from pucl.fitting.encode import encode, within_time
from pucl.fitting.front import AS_REQUESTED, FROZEN, KEPT, Front, front_of, whole_network, with_front
from pucl.fitting.label import Labels, label
from pucl.fitting.plan import AUTO, FitOptions, FitPlan, plan_fit, plan_pretraining
from pucl.fitting.progress import OnProgress
from pucl.fitting.project import PROJECTION
from pucl.fitting.published import (
    NETWORK,
    WHY,
    better_of,
    noting,
    separates,
    suits,
    took,
    why_not,
    without_training,
)
from pucl.fitting.recording import record_fit
from pucl.fitting.resuming import Resumable, Unfinished, no_empty_leftovers, open_unfinished
from pucl.fitting.start import Start, kept_encoder, like_before, started
from pucl.fitting.text_views import VIEW, on_texts, with_reason
from pucl.fitting.tune import Classifier, tune
from pucl.labels import check_answers, check_labels, check_negatives
from pucl.models.model import Model
from pucl.models.schema import Schema
from pucl.numerics.threads import threads_for
from pucl.pseudo_labels import PseudoLabels
from pucl.training.reporting import Epoch


@dataclass(frozen=True)
class FitResult:
    """A model, and what the fit knows of its training rows.

    Attributes:
        model: the model.
        z: embeddings of the rows, (n, k).
        logits: of the rows by the model, (n,); of averaged rankers by models that did not see the row.
        pseudo: pseudo-labels of the rows.
        judged: logits of the rows hidden from the heads that were compared.
        history: the epochs of the encoder's training.
        seen_by_encoder: labelled rows that the encoder was trained with, (n,); None if none was trained.
        answered: what reviewers said, 1 or −1, and 0 where they said nothing, (n,); None without answers.
        extra: answered rows that a random sample of U was given besides, (n,); None without any.
    """

    model: Model
    z: Tensor
    logits: NDArray[np.float64]
    pseudo: PseudoLabels
    judged: Judged
    history: list[Epoch]
    seen_by_encoder: NDArray[np.bool_] | None = None
    answered: NDArray[np.int8] | None = None
    extra: NDArray[np.bool_] | None = None


@torch.enable_grad()  # whatever the caller's mode is, or what an interrupted call has left of one
def fit(
    rows: Tensor,
    s: Any,
    schema: Schema,
    options: FitOptions,
    *,
    negative: Any = None,
    answers: Any = None,
    extra: NDArray[np.bool_] | None = None,
    start: Start | None = None,
    device: str | torch.device | None = None,
    on_progress: OnProgress | None = None,
    resumable: Resumable | None = None,
    views: Tensor | None = None,
) -> FitResult:
    """Fit a model to rows as the encoder takes them.

    The rows are dealt into five folds. The labels of two folds are hidden from the encoder's training, and these folds,
    one at a time (with many rows the first only), are hidden from the heads that are compared. The candidate that ranks
    hidden positives highest is fitted again to all rows with all labels. If the encoder has memorised the labelled rows
    it was trained with, only the hidden ones stand for the positives. Tables and vectors are ranked by fast models
    first; where these separate the classes, nothing slower is tried. So are the vectors that a network with published
    weights makes of colour images, where it is installed; if an encoder is trained too, the better of both is kept.

    Confirmed negatives are dealt out evenly, too, and are no part of U. Labels, π, scores and thresholds use them; the
    training of the encoder takes them for unlabelled rows, since the objectives have no term for negatives.

    Args:
        rows: (n, …).
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        schema: of the rows.
        options: what the user chose.
        negative: rows known to be negative, a mask (n,) or row numbers; at least two rows must remain unlabelled.
        answers: of reviewers to rows that a model picked: 1 (positive), 0 (negative) or NaN (no answer), (n,). They
            train rankers and heads; π, scores and thresholds take these rows for unlabelled ones.
        extra: answered rows that a random sample of U was given besides, (n,). They train rankers and heads; wherever
            rows are counted they are left out.
        start: an encoder that is trained already, to be kept as it is.
        device: where to train; a GPU if there is one.
        on_progress: called with how far the stages are.
        resumable: where the fit saves itself, to go on after an interruption; to be removed (`remove_unfinished`) when
            the result is safe.
        views: of texts, on which a projection is to be trained, (n, v, d); see `text_views`.
    """
    began, where = time.perf_counter(), pick_device(device)
    kept = options if start is None else like_before(options, start.model)
    given = GivenLabels(s, negative, answers, extra)
    unfinished = None if resumable is None else _opened(resumable, rows, given, kept, where)
    one = partial(_fit_once, rows, given, schema, device=where, start=start, views=views, on_progress=on_progress)
    with no_empty_leftovers(unfinished):
        if start is not None or not suits(schema, options):
            return one(kept, unfinished=unfinished, why=AS_REQUESTED if kept == options else KEPT)
        reason = why_not(rows, options, where)
        if reason is None:
            return _network_first(one, options, len(rows), given, unfinished, began)
        return noting(one(options, unfinished=unfinished, spent=time.perf_counter() - began), reason)


def _network_first(
    one: Callable[..., FitResult],
    options: FitOptions,
    n: int,
    given: "GivenLabels",
    unfinished: Unfinished | None,
    began: float,
) -> FitResult:
    """The fit with published weights if these separate the classes, else the better one of it and the usual fit."""
    network = one(replace(options, encoder=NETWORK), why=WHY, spent=time.perf_counter() - began)
    labelled = check_labels(given.s, n_rows=n, owner=options.owner)
    negative = check_negatives(given.negative, labelled, n, options.owner)
    if separates(network, labelled, negative, options.seed):
        return without_training(network)
    other = one(options, unfinished=unfinished, spent=time.perf_counter() - began)
    return took(better_of(network, other, labelled, negative), time.perf_counter() - began)


def _fit_once(
    rows: Tensor,
    given: "GivenLabels",
    schema: Schema,
    options: FitOptions,
    *,
    device: torch.device,
    start: Start | None,
    views: Tensor | None,
    on_progress: OnProgress | None,
    unfinished: Unfinished | None = None,
    why: str = AS_REQUESTED,
    spent: float = 0.0,
) -> FitResult:
    """The fit with the encoder of the options: `why` it was chosen, and the seconds `spent` before."""
    began = time.perf_counter()
    plan, front = _planned(rows, given, schema, options, device, on_progress, views)
    deadline = None if options.time_limit is None else began - spent + options.time_limit  # encoding counts, too
    plan = replace(started(plan, start), unfinished=unfinished, deadline=deadline)
    tunes = options.tune == AUTO and (front is not None or views is not None)
    compares = tunes or plan.start is not None
    with threads_for(plan.features.numel()) if plan.pretraining is None else nullcontext():
        result = _stages(plan, front, views if front is None else front.views, began, compares=compares)
    if front is None:
        return result
    return replace(result, model=replace(result.model, record=with_front(result.model.record, front, options, why=why)))


def _stages(plan: FitPlan, front: Front | None, views: Tensor | None, began: float, *, compares: bool) -> FitResult:
    """Every stage after the plan; with `compares`, fast rankers that separate the classes do not settle the choice."""
    settled, average = fast_first(plan)
    if plan.start is None:
        plan = within_time(plan if compares else settled)
    encoded = encode(plan, views) if plan.start is None else kept_encoder(plan, plan.start)
    plan = with_share(plan, encoded)
    comparison = compare(plan, encoded, average)
    labels = label(plan, comparison)
    classifier = tune(plan, comparison, encoded[comparison.chosen.candidate.encoder], labels.pseudo)
    if plan.answered is not None:  # where rows are counted, they are part of U
        labels = replace(labels, pseudo=replace(labels.pseudo, negative=plan.negative, prior=labels.share))
    return _finish(plan, labels, classifier, began, front)


class GivenLabels(NamedTuple):
    """What is known of the rows: s, confirmed negatives and answers as the user gave them, and extra rows."""

    s: Any
    negative: Any
    answers: Any
    extra: NDArray[np.bool_] | None


def _opened(
    resumable: Resumable, rows: Tensor, given: GivenLabels, options: FitOptions, device: torch.device
) -> Unfinished:
    """Where the fit saves itself, and what it has saved before an interruption."""
    observed = check_labels(given.s, n_rows=len(rows), owner=options.owner)
    confirmed = check_negatives(given.negative, observed, len(rows), options.owner)
    said = check_answers(given.answers, observed, confirmed, len(rows), options.owner)
    return open_unfinished(resumable, rows, observed, confirmed, options, device, answered=said, extra=given.extra)


def _planned(
    rows: Tensor,
    given: GivenLabels,
    schema: Schema,
    options: FitOptions,
    device: torch.device,
    on_progress: OnProgress | None,
    views: Tensor | None,
) -> tuple[FitPlan, Front | None]:
    """The plan for the rows, or for their vectors by a frozen encoder; labels are checked before rows are encoded."""
    check_labels(given.s, n_rows=len(rows), owner=options.owner)
    if ":" in options.text_encoder and not (schema.transform is not None and schema.transform.texts):
        raise bad_argument(options.owner, "text_encoder", "left out for rows without text", options.text_encoder)
    options, whole = whole_network(rows, schema, options)
    front = front_of(rows, schema, options, device, on_progress)
    if front is None:
        if views is not None:
            return _planned_on_views(rows, given, schema, options, device, on_progress), None
        plan = _plan(rows, given, schema, options, device, on_progress)
        if whole is not None and plan.pretraining is not None:
            stored = replace(plan.pretraining, stored_as=whole.stored_as, stored_options=whole.options)
            plan = replace(plan, pretraining=stored)
        return plan, None
    inner = front.inner_options(options)
    plan = _plan(front.vectors, given, front.inner_schema, inner, device, on_progress)
    trained = None
    if front.tune != FROZEN:
        asked = replace(inner, encoder=PROJECTION)
        n, n_p = int(plan.counted.sum()), int(plan.labelled.sum())
        trained = plan_pretraining(asked, front.inner_schema, n, n_p, device)
    return replace(plan, pretraining=trained), front


def _planned_on_views(
    rows: Tensor,
    given: GivenLabels,
    schema: Schema,
    options: FitOptions,
    device: torch.device,
    on_progress: OnProgress | None,
) -> FitPlan:
    """The plan for texts on whose views a projection is trained."""
    inner = on_texts(options)
    plan = _plan(rows, given, schema, inner, device, on_progress)
    asked = replace(inner, encoder=PROJECTION, view=VIEW)
    trained = plan_pretraining(asked, schema, int(plan.counted.sum()), int(plan.labelled.sum()), device)
    return replace(plan, pretraining=None if trained is None else with_reason(trained))


def _plan(
    rows: Tensor,
    given: GivenLabels,
    schema: Schema,
    options: FitOptions,
    device: torch.device,
    on_progress: OnProgress | None,
) -> FitPlan:
    s, negative, answers, extra = given
    return plan_fit(
        rows, s, schema, options, device, negative=negative, answers=answers, extra=extra, on_progress=on_progress
    )


def _finish(plan: FitPlan, labels: Labels, classifier: Classifier, began: float, front: Front | None) -> FitResult:
    """The model with calibrated logits, its record, and what is known of its rows."""
    judged, used = classifier.comparison.chosen, classifier.encoded
    plan.progress("judging")
    head, judged = calibrate_head(plan, labels, classifier, judged)
    plan.progress("judging", 0.5)
    record = record_fit(plan, labels, classifier, judged)
    record = replace(record, seconds=round(time.perf_counter() - began, 2))
    history = [] if used.trained is None else used.trained.history
    model = Model(
        plan.schema if front is None else front.schema, classifier.encoder, used.name, head, record,
        front=None if front is None else front.encoder, encoder_options=used.options,
    )  # fmt: skip
    if classifier.comparison.averaged is not None:
        logits = judged.logits / head.temperature
    else:
        with torch.no_grad():
            logits = head(classifier.z).double().numpy()
    seen = None if used.trained is None else plan.seen_by_encoder.numpy()
    answered, extra = (None if each is None else each.numpy() for each in (plan.answered, plan.extra))
    return FitResult(model, classifier.z, logits, labels.pseudo, judged, history, seen, answered, extra)
