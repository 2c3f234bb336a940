"""The networks of the tables, which most presets share."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from pucl.baselines.shared.settings import Settings

S = TypeVar("S", bound=Settings)
NETWORKS = MappingProxyType(
    {
        "mnist": "mlp",
        "fmnist": "lenet5",
        "cifar": "cnn13",
        "cifar1": "cnn7",
        "cifar2": "cnn7",
        "svhn": "cnn13",
        "stl": "cnn7",
        "alzheimer": "resnet50",
    }
)
# Batches and optimiser that P3Mix's authors have for the 7-layer CNN; those of other methods are for other networks.
P3MIX: Mapping[str, Any] = MappingProxyType(
    {
        "steps": 20,
        "batch_size": 512,
        "labelled_batch": 512,
        "learning_rate": 5e-5,
        "betas": (0.5, 0.99),
        "decay": "steps",
        "milestones": (20, 40, 60, 80, 100),
        "factor": 0.5,
    }
)


def with_networks(cifar: S, *, cnn7: S | None = None, **others: S) -> Mapping[str, S]:
    """Presets of all data sets with the networks of the tables.

    Args:
        cifar: the settings for CIFAR, and for data whose author has none of their own.
        cnn7: those for the 7-layer CNN, which has no batch norm, where the author's are for a network that has it.
        others: those for other data by its name ("fmnist", "mnist", "stl", "svhn", "alzheimer").
    """
    usual = {task: cnn7 if cnn7 is not None and network == "cnn7" else cifar for task, network in NETWORKS.items()}
    made = {task: others.get(task.rstrip("0123456789"), how) for task, how in usual.items()}
    return MappingProxyType({task: replace(how, encoder=NETWORKS[task]) for task, how in made.items()})
