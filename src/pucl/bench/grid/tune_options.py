"""Fine-tuning as a grid writes it: one flat table of options, where `renew` chooses between the two functions."""

from collections.abc import Mapping
from typing import Any, get_type_hints

import torch
from torch import nn

from pucl.bench.grid.decode import keywords, values_of
from pucl.heads.finetune import fine_tune, self_train
from pucl.heads.tuned import FineTuned
from pucl.heads.tuning import TuneConfig
from pucl.pseudo_labels import PseudoLabels

RENEW = "renew"


def tuning_defaults() -> dict[str, Any]:
    """Every option of either function with its default."""
    return {**values_of(TuneConfig), RENEW: True, **keywords(self_train), **keywords(fine_tune)}


def tuning_kinds() -> dict[str, Any]:
    """The types of these options."""
    return {**get_type_hints(TuneConfig), RENEW: bool, **get_type_hints(self_train), **get_type_hints(fine_tune)}


def tune(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    options: Mapping[str, Any],
    *,
    device: str | torch.device,
) -> FineTuned:
    """Fine-tune by `options`, some of `tuning_defaults`; those of the function that is not called are left out."""
    config = TuneConfig(**{name: options[name] for name in values_of(TuneConfig) if name in options})
    function = self_train if options.get(RENEW, True) else fine_tune
    own = {name: options[name] for name in keywords(function) if name in options and name != "device"}
    return function(x, s, pseudo, encoder, config, device=device, **own)
