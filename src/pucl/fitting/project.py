"""A projection of frozen vectors, trained by a contrastive objective on views whose vectors were computed once."""

import torch
from torch import Generator, Tensor, nn
from torch import device as Device

from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.inputs import Encoder, Standardise
from pucl.encoders.projection import projection_head
from pucl.losses import Objective
from pucl.seeds import seeded
from pucl.training.config import TrainConfig
from pucl.training.pretraining import Pretrained
from pucl.training.reporting import Watch
from pucl.training.run import Run, train_together
from pucl.views import View, make_view

PROJECTION = "mlp"  # the encoder of vectors that is trained on frozen ones


def train_projection(
    views: Tensor,
    labelled: Tensor,
    *,
    objective: Objective,
    encoder: str = PROJECTION,
    view: str | View = "vector",
    config: TrainConfig,
    device: Device,
    watch: Watch | None = None,
    as_scaled: Tensor | None = None,
) -> Pretrained:
    """An encoder of vectors, trained with pairs of stored views (n, v, k) of the same row, the row itself first.

    Every pair is drawn anew from the stored ones, and goes through the view of vectors: noise, dropped features and a
    little of another row. Dimensions that are `as_scaled` (k,), such as vectors of texts, are not standardised.
    """
    count, width = views.shape[1:]
    network = make_encoder(encoder, (width,), seed=config.seed)
    with seeded(config.seed + 1):
        hidden, out = config.projection
        head = projection_head(embedding_dim(network, (width,)), hidden=hidden, out=out)
    trained = Encoder(_scaling(views[:, 0], as_scaled), network)
    run = Run(
        nn.Sequential(trained, head),
        views.flatten(1),
        labelled,
        view=stored_view(count, view),
        objective=objective,
        config=config,
        device=device,
        watch=watch,
    )
    train_together([run])
    return Pretrained(trained.cpu().eval(), run.history, run.warnings, labelled.nonzero()[:0].flatten())


def _scaling(rows: Tensor, as_scaled: Tensor | None) -> Standardise:
    """Rows standardised; dimensions whose scale means something keep it among themselves: one scale for all of them."""
    scaling = Standardise.of(rows)
    if as_scaled is not None and as_scaled.any():
        scaling.scale[..., as_scaled] = scaling.scale[..., as_scaled].square().mean().sqrt()
    return scaling


def stored_view(count: int, then: str | View) -> View:
    """A view of rows (n, count · k) that hold the vectors of several views: one of them, then another view."""
    after = make_view(then) if isinstance(then, str) else then

    def view(x: Tensor, generator: Generator) -> Tensor:
        stored = x.reshape(len(x), count, -1)
        chosen = torch.randint(count, (len(x),), generator=generator, device=x.device)
        return after(stored[torch.arange(len(x), device=x.device), chosen], generator)

    return view
