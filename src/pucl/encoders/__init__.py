"""Encoders by name: networks from a batch of inputs to a batch of vectors, without the projection head."""

from typing import Any

import torch
from torch import nn

from pucl.encoders.shapes import Shape
from pucl.errors import Described, bad_argument
from pucl.registry import get
from pucl.seeds import seeded


def make_encoder(encoder: str | nn.Module, input_shape: Shape, *, seed: int = 0, **options: Any) -> nn.Module:
    """A fresh encoder by name, its weights drawn with `seed`; a module is returned unchanged."""
    if isinstance(encoder, nn.Module):
        return encoder
    if ":" in encoder:  # a scheme, such as timm:NAME; its weights are filled in later
        from pucl.encoders.frozen.resolve import build

        return build(encoder, input_shape, **options)
    entry = get("encoders", encoder)
    kind = "image" if len(input_shape) == 3 else "vector"
    if kind not in entry.inputs:
        takes = f"rows of {' or '.join(entry.inputs)} data"
        raise bad_argument(f"encoder {encoder!r}", "x", takes, Described(f"rows of shape {input_shape}"))
    with seeded(seed):
        module: nn.Module = entry.function(input_shape, **options)
    return module


def embedding_dim(encoder: nn.Module, input_shape: Shape) -> int:
    """The length of the encoder's output, read off one pass over blank rows."""
    device = next((p.device for p in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    with torch.no_grad():
        out = encoder.eval()(torch.zeros(2, *input_shape, device=device))
    encoder.train(was_training)
    if out.ndim != 2 or len(out) != 2:
        got = Described(f"shape {tuple(out.shape)} for a batch of 2")
        raise bad_argument(type(encoder).__name__, "the encoder's output", "of shape (batch, dim)", got)
    return int(out.shape[1])
