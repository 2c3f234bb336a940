"""Texts on which a projection is to be trained: random views of them, as vectors that are computed once."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pucl.data.own import Table
from pucl.data.own.text_rule import present
from pucl.encoders.frozen.views import VIEWS
from pucl.errors import Described, bad_argument
from pucl.fitting.front import FROZEN, HEAD
from pucl.fitting.plan import AUTO, FitOptions, PretrainingPlan
from pucl.fitting.project import PROJECTION
from pucl.models.schema import Schema
from pucl.seeds import seed_of
from pucl.texts.views import drop_words

TUNED = (HEAD, AUTO)
REASON = f"Views: words and spans left out of the texts at random, {VIEWS} views of each, encoded once."
VIEW = "vector"  # what a stored view goes through, as any vector does


def text_views(schema: Schema, rows: Tensor, content: Any, options: FitOptions) -> Tensor | None:
    """Features of the rows and of `VIEWS` random views of each, (n, VIEWS + 1, d); None where `tune` asks for none.

    Args:
        schema: of the rows.
        rows: as a model takes them.
        content: the rows as they came, a table with the texts.
        options: what the user chose.
    """
    if options.tune not in (*TUNED, FROZEN) or options.encoder != AUTO:
        return None
    name = schema.only_text
    if name is None or not isinstance(content, Table):
        allowed = "'all', or left out, for an encoder without weights of its own, unless all rows are texts"
        raise bad_argument(options.owner, "tune", allowed, Described(f"{options.tune!r} with encoder 'auto'"))
    if options.tune == FROZEN:
        return None
    texts = present(content, name)
    banks = [schema.features(rows)]
    for number in range(VIEWS):
        generator = np.random.default_rng(seed_of(options.seed, "text views", number))
        seen = np.array(drop_words(texts, generator), dtype=object)
        table = Table(content.types, {**content.values, name: seen}, len(seen))
        banks.append(schema.features(schema.encode(table, owner=options.owner)))
    return torch.stack(banks, dim=1)


def on_texts(options: FitOptions) -> FitOptions:
    """What the user chose about the rest of the fit: with ``tune="head"`` the projection alone."""
    encoder = PROJECTION if options.tune == HEAD else AUTO
    return replace(options, encoder=encoder, view=VIEW if encoder == PROJECTION else AUTO, fine_tune=False, tune=None)


def with_reason(pretraining: PretrainingPlan) -> PretrainingPlan:
    """The plan with what the views are in the place of the view of vectors."""
    reasons = (REASON if reason.startswith("View ") else reason for reason in pretraining.reasons)
    return replace(pretraining, reasons=tuple(reasons))
