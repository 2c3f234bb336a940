"""Embeddings of rows by a trained encoder, in batches."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.encoders.inputs import as_rows
from pucl.errors import check_count

OWNER = "pucl.embed"
GPU_TIMES = 64  # rows that a GPU takes at once for one that a CPU takes
PIXELS, FEWEST = 1 << 16, 16  # of images, and images, that convolutions take at once on a CPU, in a third of the time


@torch.no_grad()
def embed(encoder: nn.Module, x: Any, *, batch_size: int = 4096, normalise: bool = True) -> Tensor:
    """The encoder's output for every row, (n, k), L2-normalised unless `normalise` is False.

    Rows go through in batches on the encoder's device, smaller ones for images on a CPU and where its network says so
    (`rows_at_once`); the result comes back on the device of `x`.
    """
    check_count(OWNER, "batch_size", batch_size)
    rows = as_rows(x, owner=OWNER)
    device = next((p.device for p in encoder.parameters()), rows.device)
    was_training = encoder.training
    encoder.eval()
    batch_size = batch_of(getattr(encoder, "network", encoder), device, batch_size)
    if device.type == "cpu" and rows.ndim == 4 and any(isinstance(part, nn.Conv2d) for part in encoder.modules()):
        batch_size = min(batch_size, max(FEWEST, PIXELS // rows.shape[2:].numel()))
    parts = [encoder(batch.to(device)).to(rows.device) for batch in torch.split(rows, batch_size)]
    encoder.train(was_training)
    z = torch.cat(parts)
    return F.normalize(z, dim=1) if normalise else z


def batch_of(network: nn.Module, device: torch.device, usual: int) -> int:
    """How many rows go through a network together: the usual number, or its own (`rows_at_once` on a CPU) if less."""
    own: int = getattr(network, "rows_at_once", usual)
    return min(usual, own if device.type == "cpu" else own * GPU_TIMES)
