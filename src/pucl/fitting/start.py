"""Starting from a model: its trained encoder is kept, and only labelling and head are done again."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from pucl.data.own import OwnData
from pucl.data.own.dates import source_of
from pucl.encoders.embedding import embed
from pucl.encoders.plain import RAW
from pucl.errors import Described, bad_argument, some
from pucl.fitting.encode import TRAINED, Encoded, encode_raw
from pucl.fitting.plan import AUTO, FitOptions, FitPlan, PretrainingPlan
from pucl.models.evidence import keys_of
from pucl.models.model import Model
from pucl.ranking.bags import Bools
from pucl.registry import entries
from pucl.selection.diagnostics import memorised
from pucl.training.config import TrainConfig
from pucl.training.pretraining import Pretrained

ARGUMENT = "start_from"
TRAINING = ("encoder", "objective", "view", "epochs", "batch_size", "learning_rate", "fine_tune")


@dataclass(frozen=True)
class Start:
    """A model, and the labelled rows its encoder was trained with, (n,) bool; None where none was trained."""

    model: Model
    seen_by_encoder: Bools | None = None


def start_from(model: Model, data: OwnData, options: FitOptions) -> Start:
    """What a new fit keeps of a model; refused where its rows are others, or its encoder cannot be kept."""
    owner, schema = options.owner, model.schema
    if data.kind != schema.kind:
        raise bad_argument(owner, ARGUMENT, f"a model of kind {data.kind!r}, as the data", Described(repr(schema.kind)))
    before, now = set(schema.given), {name for name in data.schema if source_of(name, data.schema) == name}
    if schema.kind == "table" and before != now:
        missing, new = sorted(before - now), sorted(now - before)
        got = f"one with {some(missing)}" if missing else f"one without {some(new)}"
        raise bad_argument(owner, ARGUMENT, "a model of the columns of the data", Described(got))
    choices = model.record.choices
    if model.front is not None and like_before(options, model).encoder != model.front.name:
        asked = f"left out, or given with the encoder of that model ({model.front.name})"
        raise bad_argument(owner, ARGUMENT, asked, Described(f"encoder {options.encoder!r}"))
    if choices.training is None:
        return Start(model)
    if choices.fine_tuned is not None:
        allowed = "a model that was not fine-tuned: fine-tuning has seen every label, so nothing could be judged"
        raise bad_argument(owner, ARGUMENT, allowed, Described(f"one fine-tuned on {choices.fine_tuned}"))
    if options.asks_for_training and model.front is None:
        asked = f"left out beside {', '.join(TRAINING)}: the encoder of that model is kept as it is"
        raise bad_argument(owner, ARGUMENT, asked, Described("both"))
    evidence = model.evidence
    if evidence is None or evidence.keys is None or evidence.shown is None:
        got_old = Described("one that does not know which rows its encoder was trained with; fit it again without this")
        raise bad_argument(owner, ARGUMENT, "a model of pucl fit", got_old)
    seen = data.s & np.isin(keys_of(data.ids), evidence.keys[evidence.shown])
    if not seen.any() or not (data.s & ~seen).any():
        rows = Described(f"{int(seen.sum()):,} of {int(data.s.sum()):,} labelled rows (rows are known by their ids)")
        raise bad_argument(owner, ARGUMENT, "a model whose encoder was trained with some of the labelled rows", rows)
    return Start(model, seen)


def like_before(options: FitOptions, model: Model) -> FitOptions:
    """The options with the encoder in front of a model, where none was chosen and its weights come with a package."""
    front = model.front
    if front is None or options.encoder != AUTO or front.name not in entries("encoders"):
        return options
    return replace(options, encoder=front.name)


def started(plan: FitPlan, start: Start | None) -> FitPlan:
    """The plan with the encoder of the model in the place of training.

    Labelled rows that the encoder was trained with are dealt to the folds that it may know, all others to the folds
    that were hidden from it.
    """
    training = None if start is None else start.model.record.choices.training
    if start is None:
        return plan
    if training is None or start.seen_by_encoder is None:
        kept = plan.schema.kind != "image" or start.model.front is not None
        return plan if kept else replace(plan, pretraining=None)
    model, seed = start.model, plan.options.seed
    stored: dict[str, Any] = {"optimiser": training.optimiser, "weight_decay": training.weight_decay}
    stored |= {"epochs": training.epochs, "batch_size": training.batch_size, "learning_rate": training.learning_rate}
    config = TrainConfig(seed=seed, **stored)
    name = model.record.choices.encoder
    reason = f"Encoder {name}: kept from the model that this fit started from."
    pretraining = PretrainingPlan(
        name, training.objective, training.view, config, (reason,),
        stored_as=model.encoder_name, stored_options=model.encoder_options,
    )  # fmt: skip
    fold, draw = plan.fold.clone(), torch.Generator().manual_seed(seed)
    seen = torch.from_numpy(start.seen_by_encoder)
    for rows, first, last in (
        (seen, plan.hidden_folds, plan.n_folds),
        (plan.labelled & ~seen, 0, plan.hidden_folds),
    ):
        number = torch.arange(int(rows.sum())) % (last - first) + first
        fold[rows] = number[torch.randperm(len(number), generator=draw)]
    return replace(plan, pretraining=pretraining, fold=fold, start=start)


def kept_encoder(plan: FitPlan, start: Start) -> dict[str, Encoded]:
    """What the encoder of the model makes of the rows; the rows as they are too where rankers are averaged."""
    model, seen = start.model, plan.seen_by_encoder
    z = embed(model.encoder, plan.features)
    auc, has_memorised = memorised(z, seen, plan.labelled & ~seen, seed=plan.options.seed)
    trained = Pretrained(model.encoder, [], [], torch.zeros_like(plan.labelled))
    kept = Encoded(
        model.encoder_name, model.encoder, z, trained, seen if has_memorised else None, auc, model.encoder_options
    )
    return {**({RAW: encode_raw(plan.features, plan.device)} if plan.averages else {}), TRAINED: kept}
