"""The ceiling: the same network, views and optimiser, trained on the true labels of every row."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.device import pick_device
from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.inputs import Encoder, Standardise, as_rows
from pucl.seeds import seeded
from pucl.training.config import TrainConfig
from pucl.training.run import Run, train
from pucl.views import make_view


def fit_supervised(
    x: Any, y: Any, *, encoder: str, view: str, config: TrainConfig, device: str | torch.device | None = "cpu"
) -> nn.Module:
    """A classifier of raw rows (→ logits (n,)) that has seen all true labels."""
    rows = as_rows(x, owner="fit_supervised")
    shape = tuple(rows.shape[1:])
    network = make_encoder(encoder, shape, seed=config.seed)
    with seeded(config.seed):
        layer = nn.Linear(embedding_dim(network, shape), 1)
    model = nn.Sequential(Encoder(Standardise.of(rows), network), layer)

    def cross_entropy(first: Tensor, second: Tensor, truth: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(torch.cat([first, second])[:, 0], torch.cat([truth, truth]).float())

    train(
        Run(
            model,
            rows,
            torch.as_tensor(y),
            view=make_view(view),
            objective=cross_entropy,
            config=config,
            device=pick_device(device),
            rowwise=rows.ndim == 4,
            trusted=True,
        )
    )
    return nn.Sequential(model, nn.Flatten(0))
