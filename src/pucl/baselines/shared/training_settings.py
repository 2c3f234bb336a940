"""How a baseline is trained: a frozen dataclass that methods extend, and the networks most presets share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pucl.errors import bad_argument, check_count, check_positive, is_number, unknown_name
from pucl.training.schedule import learning_rate as along_cosine

Optimiser = Literal["adam", "sgd"]
Decay = Literal["constant", "cosine", "steps"]
OPTIMISERS, DECAYS = ("adam", "sgd"), ("constant", "cosine", "steps")
LEAST_STEPS = 16  # of an epoch, so that small sets are passed several times
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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Network, batches and optimiser.

    Attributes:
        encoder: a registered encoder; by the shape of the rows when None.
        epochs: how many.
        steps: of an epoch; when None as many as make a pass over the rows, but at least 16.
        batch_size: rows of a step; with `labelled_batch` the unlabelled ones.
        labelled_batch: labelled rows of a step besides; None for steps of shuffled rows, labelled or not.
        optimiser: "adam" (weight decay is part of the gradient) or "sgd".
        learning_rate: at the start.
        decay: "constant"; "cosine", down to `final` times the learning rate; or "steps": times `factor` at each of the
            epochs `milestones`.
        final: see `decay`.
        milestones: see `decay`.
        factor: see `decay`.
        betas: of Adam.
        amsgrad: of Adam.
        momentum: of SGD.
        nesterov: of SGD.
        weight_decay: of all parameters.
    """

    encoder: str | None = None
    epochs: int = 40
    steps: int | None = None
    batch_size: int = 256
    labelled_batch: int | None = None
    optimiser: Optimiser = "adam"
    learning_rate: float = 1e-3
    decay: Decay = "constant"
    final: float = 0.0
    milestones: tuple[int, ...] = ()
    factor: float = 0.5
    betas: tuple[float, float] = (0.9, 0.999)
    amsgrad: bool = False
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name in ("epochs", "batch_size"):
            check_count(owner, name, getattr(self, name))
        for name in ("steps", "labelled_batch"):
            if getattr(self, name) is not None:
                check_count(owner, name, getattr(self, name))
        check_positive(owner, "learning_rate", self.learning_rate)
        if not is_number(self.weight_decay) or self.weight_decay < 0:
            raise bad_argument(owner, "weight_decay", "a finite number ≥ 0", self.weight_decay)
        if self.optimiser not in OPTIMISERS:
            raise unknown_name("optimiser", self.optimiser, OPTIMISERS)
        if self.decay not in DECAYS:
            raise unknown_name("decay", self.decay, DECAYS)

    def rate(self, step: int, per_epoch: int) -> float:
        """The learning rate of a step, counted from 0."""
        if self.decay == "cosine":
            total, last = self.epochs * per_epoch, self.final * self.learning_rate
            return along_cosine(step, total=total, warmup=0, peak=self.learning_rate, final=last)
        passed = sum(step >= epoch * per_epoch for epoch in self.milestones) if self.decay == "steps" else 0
        return self.learning_rate * self.factor**passed


@dataclass(frozen=True, kw_only=True)
class StreamSettings(Settings):
    """Batches in two streams: `labelled_batch` rows of P, then `batch_size` rows of U."""

    batch_size: int = 128
    labelled_batch: int | None = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labelled_batch is None:
            raise bad_argument(type(self).__name__, "labelled_batch", "a whole number ≥ 1", None)


Presets = Mapping[str, Settings]
S = TypeVar("S", bound=Settings)


def preset_of(presets: Presets, task: str) -> Settings | None:
    """The author's settings for a task: those under its own name ("cifar3"), or under that of its data ("cifar")."""
    return presets.get(task, presets.get(task.removesuffix("_grouped").rstrip("0123456789")))


def with_networks(cifar: S, *, cnn7: S | None = None, **others: S) -> Mapping[str, S]:
    """Presets of all data sets with the networks of the tables.

    Args:
        cifar: the settings for CIFAR, and for data whose author has none of their own.
        cnn7: those for the 7-layer CNN, which has no batch norm, where the author's are for a network that has it.
        others: those for other data by its name ("fmnist", "mnist", "stl", "svhn", "alzheimer").
    """
    usual = {task: cnn7 if cnn7 is not None and network == "cnn7" else cifar for task, network in NETWORKS.items()}
    made = {task: others.get(task.rstrip("0123456789"), chosen) for task, chosen in usual.items()}
    return MappingProxyType({task: replace(chosen, encoder=NETWORKS[task]) for task, chosen in made.items()})
