"""Fine-tuning as a grid writes it: one flat table of options for each of the heads that train the encoder too.

With the head "finetune", `renew` chooses between `pucl.self_train` and `pucl.fine_tune`; "momentum" is
`pucl.momentum_train`.
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

import torch
from torch import nn

from pucl.bench.grid.cells import FINE_TUNE
from pucl.bench.grid.decode import keywords, values_of
from pucl.heads.finetune import fine_tune, self_train
from pucl.heads.momentum import MomentumConfig, momentum_train
from pucl.heads.tuned import FineTuned
from pucl.heads.tuning import TuneConfig
from pucl.pseudo_labels import PseudoLabels

RENEW = "renew"


def tuning_defaults(head: str) -> dict[str, Any]:
    """Every option of a head with its default; of "finetune" those of either function."""
    if head != FINE_TUNE:
        return {**values_of(MomentumConfig), **keywords(momentum_train)}
    return {**values_of(TuneConfig), RENEW: True, **keywords(self_train), **keywords(fine_tune)}


def tuning_kinds(head: str) -> dict[str, Any]:
    """The types of these options."""
    if head != FINE_TUNE:
        return get_type_hints(MomentumConfig)
    return {**get_type_hints(TuneConfig), RENEW: bool, **get_type_hints(self_train), **get_type_hints(fine_tune)}


def config_of(head: str, options: Mapping[str, Any]) -> TuneConfig:
    """The configuration that some of the options of a head make; its values are checked."""
    kind = TuneConfig if head == FINE_TUNE else MomentumConfig
    return kind(**{name: options[name] for name in values_of(kind) if name in options})


def tune(
    head: str,
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    options: Mapping[str, Any],
    *,
    device: str | torch.device,
) -> FineTuned:
    """Fine-tune by `options`, some of `tuning_defaults`; those of the function that is not called are left out."""
    config = config_of(head, options)
    if isinstance(config, MomentumConfig):
        return momentum_train(x, s, pseudo, encoder, config, device=device)
    function = self_train if options.get(RENEW, True) else fine_tune
    own = {name: options[name] for name in keywords(function) if name in options and name != "device"}
    return function(x, s, pseudo, encoder, config, device=device, **own)
