"""Teachers on disk: a fine-tuned model, stored like an encoder, so that all its pupils learn from the same one."""

from collections.abc import Iterable

import torch
from torch import nn

from pucl.bench.run.encoding import KeptTeacher
from pucl.encoders.inputs import Encoder
from pucl.heads.tuned import FineTuned


def kept_teacher(model: FineTuned, warnings: Iterable[str]) -> KeptTeacher:
    """The record to store with the encoder of a fine-tuned model."""
    layer = model.layer
    return KeptTeacher(tuple(layer.weight[0].tolist()), tuple(layer.bias.tolist()), tuple(warnings))


def restored(encoder: Encoder, kept: KeptTeacher, device: str) -> FineTuned:
    """The stored model, bit for bit."""
    if encoder.standardise.mean.ndim == 3:  # of images: laid out in memory as fine-tuning leaves it
        encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    state = {"weight": torch.tensor([kept.weight], device=device), "bias": torch.tensor(kept.bias, device=device)}
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, len(kept.weight), 1, device=device)  # type: ignore[no-untyped-call]  # no draws
    layer.load_state_dict(state)
    return FineTuned(encoder, layer).eval().requires_grad_(False)
