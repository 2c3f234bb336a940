"""Contrastive pretraining (algo:puCL), from names to a trained encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.inputs import Encoder, Standardise, as_rows
from pucl.encoders.projection import projection_head
from pucl.errors import Described, bad_argument
from pucl.labels import check_labels
from pucl.losses import make_objective
from pucl.training.config import TrainConfig
from pucl.training.loop import Epoch, train
from pucl.views import View, make_view

OWNER = "pucl.pretrain"


@dataclass(frozen=True)
class Pretrained:
    """A trained encoder (the projection head is gone) and the loss of every epoch."""

    encoder: Encoder
    history: list[Epoch]


def pretrain(
    x: Any,
    s: Any,
    *,
    objective: str = "pucl",
    encoder: str | nn.Module | None = None,
    view: str | View | None = None,
    temperature: float = 0.5,
    prior: float | None = None,
    config: TrainConfig | None = None,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> Pretrained:
    """Learn an encoder from PU data with a contrastive objective.

    Args:
        x: images (n, c, h, w) as uint8 or floats in [0, 1], or rows (n, d).
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        objective: a registered loss.
        encoder: a registered encoder or any module from rows to vectors; chosen from the kind of `x` when not given.
        view: a registered view or a function ``(x, generator) → x``; chosen from the kind of `x` when not given.
        temperature: τ of the objective.
        prior: π, for objectives that need it.
        config: how to train.
        device: where to train.
        on_epoch: called with what is known after every epoch.
    """
    rows = as_rows(x, owner=OWNER).to(device)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=OWNER)).to(device)
    if len(rows) < 4:
        raise bad_argument(OWNER, "x", "at least 4 rows", Described(f"{len(rows)}"))
    config = config or TrainConfig()
    image = rows.ndim == 4
    loss = make_objective(objective, temperature=temperature, prior=prior)
    shape = tuple(rows.shape[1:])
    network = make_encoder(encoder or ("small_cnn" if image else "mlp"), shape, seed=config.seed).to(device)
    standardise = Standardise.of(rows).to(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed + 1)
        hidden, out = config.projection
        head = projection_head(embedding_dim(network, shape), hidden=hidden, out=out).to(device)
    if view is None or isinstance(view, str):
        view = make_view(view or _default_view(shape))
    model = Encoder(standardise, network)
    history = train(
        nn.Sequential(model, head), rows, labelled, view=view, objective=loss, config=config, on_epoch=on_epoch
    )
    return Pretrained(model, history)


def _default_view(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return "feature_noise"
    # A crop of a tiny image, such as an 8 × 8 digit, leaves nothing to recognise.
    return "small_image" if min(shape[1:]) < 16 else "simclr"
