"""Rankers of tables and vectors, averaged: fitted once, judged out of sample, stored as one head."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pucl.data.own.expand import Expand
from pucl.fitting.plan import FitPlan
from pucl.heads import LinearHead
from pucl.heads.blend import Blend, Member, reference_scores
from pucl.heads.stored import StoredHead
from pucl.heads.support_vectors import SupportVectors
from pucl.heads.trees import Trees
from pucl.models.schema import Schema
from pucl.priors import PriorEstimate
from pucl.ranking.averaging import Ranked, TableRows, averaged_logits, rank_all
from pucl.ranking.bagged_svm import BaggedMachines
from pucl.ranking.bags import Bools, Floats
from pucl.ranking.prior import prior_of_table
from pucl.ranking.scaling import standardised
from pucl.ranking.separability import classes_separate
from pucl.ranking.trees import FittedTrees


@dataclass(frozen=True)
class Average:
    """Rankers whose ranks are averaged.

    Attributes:
        ranked: the rankers with their weights.
        skipped: names of rankers for which there was no time.
        head: all of them as one, rows → logits.
        logits: of every row by models that did not see it, (n,).
        mean: of the features, for members that take them standardised.
        scale: of the features.
    """

    ranked: tuple[Ranked, ...]
    skipped: tuple[str, ...]
    head: Blend
    logits: Floats
    mean: Floats
    scale: Floats


def fast_first(plan: FitPlan) -> tuple[FitPlan, Average | None]:
    """The averaged rankers where they are used, and the plan without pretraining if they separate the classes."""
    if not plan.averages:
        return plan, None
    average = average_rankers(plan)
    if plan.schema.kind == "table" and plan.pretraining is None:
        return plan, average  # there is nothing slower to try
    separate = classes_separate(average.logits, plan.labelled.numpy(), plan.aside, seed=plan.options.seed)
    if plan.options.asks_for_training or not separate:
        return plan, average
    return replace(plan, pretraining=None, settled=True), average


def average_rankers(plan: FitPlan) -> Average:
    """Fit every ranker for which there is time, and average their ranks."""
    expand = plan.schema.expand or Expand.identity(plan.rows.shape[1])
    positive, negative = plan.train_positive.numpy(), _array(plan.train_negative)
    rows, mean, scale = rows_to_rank(
        plan.schema, plan.rows, plan.features, positive, negative, plan.options.seed,
        reviewed=None if plan.answered is None else plan.answered.numpy() != 0, extra=_array(plan.extra),
    )  # fmt: skip
    ranked, skipped = rank_all(rows, deadline=plan.deadline, on_progress=partial(plan.progress, "ranking"))
    used = [each for each in ranked if each.weight > 0]
    members = [
        Member(each.name, _head(each, mean, scale), each.takes, reference_scores(each.score), each.weight)
        for each in used
    ]
    return Average(tuple(ranked), tuple(skipped), Blend(members, expand), averaged_logits(used), mean, scale)


def prior_of_rows(schema: Schema, rows: Tensor, labelled: Bools, negative: Bools | None, *, seed: int) -> PriorEstimate:
    """π̂ of a table or of vectors, or the bound on it: what a fit to these rows says."""
    return prior_of_table(rows_to_rank(schema, rows, schema.features(rows), labelled, negative, seed)[0])


def rows_to_rank(
    schema: Schema,
    rows: Tensor,
    features: Tensor,
    labelled: Bools,
    negative: Bools | None,
    seed: int,
    *,
    reviewed: Bools | None = None,
    extra: Bools | None = None,
) -> tuple[TableRows, Floats, Floats]:
    """What the rankers take of encoded rows and their features, with mean and scale of the features."""
    standard, mean, scale = standardised(features.numpy(), schema.as_scaled)
    columns = np.ascontiguousarray(rows.numpy(), dtype=np.float32)
    categories = () if schema.expand is None else schema.expand.categories
    return TableRows(columns, categories, standard, labelled, negative, seed, reviewed, extra), mean, scale


def _array(mask: Tensor | None) -> Bools | None:
    return None if mask is None else mask.numpy()


def _head(ranked: Ranked, mean: Floats, scale: Floats) -> StoredHead:
    """The fitted ranker as a head of compact rows or of features."""
    fitted = ranked.fitted
    if isinstance(fitted, FittedTrees):
        return Trees.of_sklearn(fitted.trees, fitted.values)
    if isinstance(fitted, BaggedMachines):
        arrays = (mean, scale, fitted.vectors, fitted.weight, fitted.bias)
        return SupportVectors(*map(_float, arrays), gamma=fitted.gamma)
    weight = fitted.coef_[0] / scale
    return LinearHead(_float(weight), _float(fitted.intercept_[0] - weight @ mean))


def _float(value: object) -> Tensor:
    return torch.as_tensor(np.asarray(value), dtype=torch.float32)
