"""The optimiser of a configuration; the learning rate is a tensor on the device.

LARS scales and decays every tensor; SGD and AdamW do not decay biases and the parameters of norms.
"""

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from pucl.training.config import TrainConfig
from pucl.training.lars import LARS
from pucl.training.sgd import SGD


def make_optimiser(config: TrainConfig, network: nn.Module) -> tuple[Optimizer, Tensor]:
    """The optimiser over the network's parameters, and the learning rate to fill before every step."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    device = parameters[0].device
    rate = torch.tensor(config.learning_rate, device=device)
    if config.optimiser == "adamw":
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        on_gpu = device.type == "cuda"
        return AdamW([group for group in groups if group["params"]], lr=rate, capturable=on_gpu, foreach=on_gpu), rate
    kind = LARS if config.optimiser == "lars" else SGD
    return kind(parameters, lr=rate, momentum=config.momentum, weight_decay=config.weight_decay), rate


def state_tensors(optimiser: Optimizer, network: nn.Module) -> dict[str, Tensor]:
    """What the optimiser remembers, by the names of the parameters: ``name/field``."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in network.named_parameters():
        for field, value in optimiser.state.get(parameter, {}).items():
            tensors[f"{name}/{field}"] = value
    return tensors


@torch.no_grad()
def restore_state(optimiser: Optimizer, network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put back what `state_tensors` gave."""
    parameters = dict(network.named_parameters())
    # Adam counts its steps in a tensor that stays on the CPU unless the step is captured.
    captured = any(group.get("capturable") for group in optimiser.param_groups)
    for key, value in tensors.items():
        name, _, field = key.rpartition("/")
        parameter = parameters[name]
        counts = value.shape != parameter.shape
        place = torch.empty_like(value if counts and not captured else parameter)  # laid out as the weights are
        optimiser.state[parameter][field] = value.to(place.device) if counts else place.copy_(value)
