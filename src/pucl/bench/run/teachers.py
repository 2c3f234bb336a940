"""Teachers on disk: a fine-tuned model, kept as encoders are, so that all its pupils learn from the same one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from pucl.bench.run.stages import Score
from pucl.encoders.inputs import Encoder
from pucl.encoders.saved import save_encoder
from pucl.heads.tuned import FineTuned

LAYER = "layer"


def save_teacher(place: Path, score: Score, *, name: str, rows: NDArray[Any], extra: Mapping[str, Any]) -> None:
    """Write down the encoder of a fine-tuned model, and the few numbers of its layer with what else is known.

    Other teachers are not kept: their heads are of many kinds, and quickly fitted.
    """
    model = score.tuned
    if model is not None and isinstance(model.encoder, Encoder):
        layer = {key: value.tolist() for key, value in model.layer.state_dict().items()}
        more = {**extra, LAYER: layer}
        save_encoder(place, model.encoder, name=name, input_shape=rows.shape[1:], options={}, extra=more)


def restored(encoder: Encoder, kept: Mapping[str, Any], device: str) -> Score:
    """The scores of a model that was written down, to the bit."""
    if encoder.standardise.mean.ndim == 3:  # of images: laid out in memory as fine-tuning leaves it
        encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    state = {key: torch.tensor(value, device=device) for key, value in kept[LAYER].items()}
    width = state["weight"].shape[1]
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, width, 1, device=device)  # type: ignore[no-untyped-call]  # no draws
    layer.load_state_dict(state)
    return Score.of_tuned(FineTuned(encoder, layer).eval().requires_grad_(False), device)
