"""A projection of frozen vectors, trained by a contrastive objective on views whose vectors were computed once."""

import torch
from torch import Generator, Tensor, nn

from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.inputs import Encoder, Standardise
from pucl.encoders.projection import projection_head
from pucl.fitting.plan import FitPlan, PretrainingPlan
from pucl.losses import make_objective
from pucl.training.pretraining import Pretrained
from pucl.training.reporting import Watch
from pucl.training.run import Run, train_together
from pucl.views import View, make_view


def train_projection(
    plan: FitPlan, pretraining: PretrainingPlan, views: Tensor, labelled: Tensor, prior: float | None, watch: Watch
) -> Pretrained:
    """An encoder of vectors, trained with pairs of stored views (n, v, k) of the same row.

    Every pair is drawn anew from the stored ones, and goes through the view of vectors: noise, dropped features and a
    little of another row.
    """
    count, width = views.shape[1:]
    network = make_encoder(pretraining.encoder, (width,), seed=plan.options.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.options.seed + 1)
        hidden, out = pretraining.config.projection
        head = projection_head(embedding_dim(network, (width,)), hidden=hidden, out=out)
    encoder = Encoder(_scaling(plan), network)
    run = Run(
        nn.Sequential(encoder, head),
        views.flatten(1),
        labelled,
        view=stored_view(count, pretraining.view),
        objective=make_objective(pretraining.objective, temperature=plan.options.temperature, prior=prior),
        config=pretraining.config,
        device=plan.device,
        watch=watch,
    )
    train_together([run])
    return Pretrained(encoder.cpu().eval(), run.history, run.warnings, labelled.nonzero()[:0].flatten())


def _scaling(plan: FitPlan) -> Standardise:
    """Features standardised, but those whose scale means something, vectors of texts, by one scale for all of them."""
    scaling = Standardise.of(plan.features)
    kept = torch.from_numpy(plan.schema.as_scaled)
    if kept.any():
        scaling.scale[..., kept] = scaling.scale[..., kept].square().mean().sqrt()
    return scaling


def stored_view(count: int, then: str | View) -> View:
    """A view of rows (n, count · k) that hold the vectors of several views: one of them, then another view."""
    after = make_view(then) if isinstance(then, str) else then

    def view(x: Tensor, generator: Generator) -> Tensor:
        stored = x.reshape(len(x), count, -1)
        chosen = torch.randint(count, (len(x),), generator=generator, device=x.device)
        return after(stored[torch.arange(len(x), device=x.device), chosen], generator)

    return view
