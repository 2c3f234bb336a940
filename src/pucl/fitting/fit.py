"""From rows and s to a model, stage by stage."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.device import pick_device
from pucl.fitting.average import fast_first
from pucl.fitting.calibrate import calibrate_head
from pucl.fitting.compare import Judged, compare
from pucl.fitting.encode import encode, within_time
from pucl.fitting.front import FROZEN, PROJECTION, Front, front_of, whole_network, with_front
from pucl.fitting.label import Labels, label
from pucl.fitting.plan import AUTO, FitOptions, FitPlan, OnProgress, plan_fit, plan_pretraining
from pucl.fitting.recording import record_fit
from pucl.fitting.tune import Classifier, tune
from pucl.labels import check_labels
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
    """

    model: Model
    z: Tensor
    logits: NDArray[np.float64]
    pseudo: PseudoLabels
    judged: Judged
    history: list[Epoch]


def fit(
    rows: Tensor,
    s: Any,
    schema: Schema,
    options: FitOptions,
    *,
    negative: Any = None,
    device: str | torch.device | None = None,
    on_progress: OnProgress | None = None,
) -> FitResult:
    """Fit a model to rows as the encoder takes them.

    The rows are dealt into five folds. The labels of two folds are hidden from the encoder's training, and these folds,
    one at a time (with many rows the first only), are hidden from the heads that are compared. The candidate that ranks
    hidden positives highest is fitted again to all rows with all labels. If the encoder has memorised the labelled rows
    it was trained with, only the hidden ones stand for the positives. Tables and vectors are ranked by fast models
    first; where these separate the classes, nothing slower is tried.

    Confirmed negatives are dealt out evenly, too, and are no part of U. Labels, π, scores and thresholds use them; the
    training of the encoder takes them for unlabelled rows, since the objectives have no term for negatives.

    Args:
        rows: (n, …).
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        schema: of the rows.
        options: what the user chose.
        negative: rows known to be negative, a mask (n,) or row numbers; at least two rows must remain unlabelled.
        device: where to train; a GPU if there is one.
        on_progress: called with the name of the stage and the share done.
    """
    began = time.perf_counter()
    where = pick_device(device)
    plan, front = _planned(rows, s, schema, options, where, negative, on_progress)
    with threads_for(plan.features.numel()) if plan.pretraining is None else nullcontext():
        settled, average = fast_first(plan)
        if front is None or front.tune != AUTO:  # which asks for a comparison in any case
            plan = settled
        plan = within_time(plan)
        encoded = encode(plan, None if front is None else front.views)
        comparison = compare(plan, encoded, average)
        labels = label(plan, comparison)
        classifier = tune(plan, comparison, encoded[comparison.chosen.candidate.encoder], labels.pseudo)
        result = _finish(plan, labels, classifier, began, front)
    if front is None:
        return result
    return replace(result, model=replace(result.model, record=with_front(result.model.record, front, options)))


def _planned(
    rows: Tensor, s: Any, schema: Schema, options: FitOptions, device: torch.device, negative: Any, report: Any
) -> tuple[FitPlan, Front | None]:
    """The plan for the rows, or for their vectors by a frozen encoder; labels are checked before rows are encoded."""
    check_labels(s, n_rows=len(rows), owner=options.owner)
    options, whole = whole_network(rows, schema, options)
    front = front_of(rows, schema, options, device, report)
    if front is None:
        plan = plan_fit(rows, s, schema, options, device, negative=negative, on_progress=report)
        if whole is not None and plan.pretraining is not None:
            stored = replace(plan.pretraining, stored_as=whole.stored_as, stored_options=whole.options)
            plan = replace(plan, pretraining=stored)
        return plan, None
    inner = front.inner_options(options)
    plan = plan_fit(front.vectors, s, front.inner_schema, inner, device, negative=negative, on_progress=report)
    trained = None
    if front.tune != FROZEN:
        asked = replace(inner, encoder=PROJECTION)
        n_p = int(plan.labelled.sum())
        trained = plan_pretraining(asked, front.inner_schema, len(rows), n_p, device)
    return replace(plan, pretraining=trained), front


def _finish(plan: FitPlan, labels: Labels, classifier: Classifier, began: float, front: Front | None) -> FitResult:
    """The model with calibrated logits, its record, and what is known of its rows."""
    judged, used = classifier.comparison.chosen, classifier.encoded
    head, judged = calibrate_head(plan, labels, classifier, judged)
    record = record_fit(plan, labels, classifier, judged)
    record = replace(record, seconds=round(time.perf_counter() - began, 2))
    plan.progress("done", 1.0)
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
    return FitResult(model, classifier.z, logits, labels.pseudo, judged, history)
