"""What every kind of fine-tuning shares: its settings, its rows, and the steps of encoder and layer together."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.device import pick_device
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import as_rows, to_float
from pucl.errors import Described, bad_argument, check_count, check_positive, is_number
from pucl.heads.linear import linear
from pucl.heads.tuned import Normed
from pucl.labels import check_labels
from pucl.pseudo_labels import PseudoLabels
from pucl.seeds import seed_of, seeded
from pucl.training.averaging import WeightAverage
from pucl.training.batches import epoch_order, steps_per_epoch
from pucl.training.capture import Captured, is_recordable, own_stream
from pucl.training.config import TrainConfig
from pucl.training.pretraining import default_view
from pucl.training.schedule import learning_rate as scheduled
from pucl.views import View, known_as, make_view

WEIGHT_DECAY = 0.01
MAX_BATCH, MIN_STEPS = 1024, 16  # rows of a batch, batches of an epoch
Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """How `fine_tune` and `self_train` train, with AdamW.

    Attributes:
        epochs: passes over the rows.
        batch_size: rows per step; when not given, 1,024 or as many as make 16 steps an epoch, whichever is less.
        learning_rate: of the layer at the start; it falls to 0 along half a cosine.
        encoder_scale: the learning rate of the encoder as a multiple of that of the layer.
        view: a registered view or a function ``(x, generator) → x``; when not given, a shift by a pixel for images,
            and what `pucl.pretrain` takes for anything else.
        mixup: α, where rows of a batch are mixed two by two with weights from Beta(α, α); 0 for rows as they are.
        average: the decay of a running average of the weights, such as 0.99, which is then what is kept; 0 keeps the
            weights of the last step.
        seed: of the batches, the views and the mixing.
    """

    epochs: int = 15
    batch_size: int | None = None
    learning_rate: float = 1e-3
    encoder_scale: float = 1.0
    view: str | View | None = None
    mixup: float = 0.0
    average: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count(owner, "epochs", self.epochs)
        if self.batch_size is not None:
            check_count(owner, "batch_size", self.batch_size, low=2)
        check_positive(owner, "learning_rate", self.learning_rate)
        check_positive(owner, "encoder_scale", self.encoder_scale)
        if not is_number(self.mixup) or not 0 <= self.mixup < float("inf"):
            raise bad_argument(owner, "mixup", "a finite number ≥ 0", self.mixup)
        if not is_number(self.average) or not 0 <= self.average < 1:
            raise bad_argument(owner, "average", "a number in [0, 1)", self.average)
        check_count(owner, "seed", self.seed, low=0)


@dataclass(frozen=True)
class TuningRows:
    """Rows with their labels, on the device."""

    x: Tensor
    labelled: Tensor
    pseudo: PseudoLabels

    @classmethod
    def of(cls, owner: str, x: Any, s: Any, pseudo: PseudoLabels, device: str | torch.device | None) -> "TuningRows":
        """What a user gave, checked."""
        rows = as_rows(x, owner=owner)
        labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=owner))
        if len(pseudo.labels) != len(rows):
            got = Described(f"{len(pseudo.labels)} pseudo-labels")
            raise bad_argument(owner, "pseudo", f"of length {len(rows)}, one per row of x", got)
        if pseudo.labels.all() or not pseudo.labels.any():
            raise bad_argument(owner, "pseudo", "labels of both classes", Described("labels of one class only"))
        place = pick_device(device)
        return cls(rows.to(place), labelled.to(place), pseudo.to(place))

    def only(self, members: Tensor) -> "TuningRows":
        """Some of the rows."""
        return TuningRows(self.x[members], self.labelled[members], self.pseudo.only(members))


class Steps(ABC):
    """The steps of fine-tuning; on a GPU one recorded step. A regime says what the loss is, and what changes meanwhile.

    Args:
        network: is trained in place.
        rows: those it is trained on.
        config: how to train.
        n_rows: how many rows there are in all, from which the size of a batch follows where none is given.
        labelled_share: the share of labelled rows in every batch.
        more: modules that are trained at the rate of the layer.
    """

    def __init__(
        self,
        network: Normed,
        rows: TuningRows,
        config: TuneConfig,
        *,
        n_rows: int,
        labelled_share: float | None = None,
        more: Sequence[nn.Module] = (),
    ) -> None:
        self.network, self.rows, self.config = network, rows, config
        self.device = rows.x.device
        self.gpu = self.device.type == "cuda"
        self.view = view_of(config.view, rows.x, mild=True)
        self.generator = Generator(device=self.device)
        size = config.batch_size or min(MAX_BATCH, max(2, n_rows // MIN_STEPS))
        self.batches = TrainConfig(
            epochs=config.epochs, batch_size=min(size, len(rows.x)), learning_rate=config.learning_rate,
            labelled_share=labelled_share, seed=config.seed,
        )  # fmt: skip
        layers = [parameter for part in (network.layer, *more) for parameter in part.parameters()]
        rates = (config.learning_rate * config.encoder_scale, config.learning_rate)
        groups = [
            # On a GPU the rate is a tensor, which a recorded step reads anew.
            {"params": parameters, "peak": rate, "lr": self.zeros() if self.gpu else 0.0}
            for parameters, rate in zip((list(network.encoder.parameters()), layers), rates, strict=True)
        ]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY, capturable=self.gpu, foreach=self.gpu)
        self.kept = torch.ones((), device=self.device)  # what a row keeps of itself where rows are mixed
        # The first is kept, if the configuration wants an average.
        self.averages: list[WeightAverage[Any]] = [WeightAverage(network, config.average)] if config.average else []

    @abstractmethod
    def loss(self, members: Tensor) -> Tensor:
        """The loss of the rows of a batch; all that it reads and changes are tensors that keep their place."""

    @abstractmethod
    def begin(self, epoch: int) -> None:
        """What is to be done before an epoch."""

    def prepare(self, number: int, total: int) -> None:
        """Draws, learning rates and decays of a step."""
        seed, mixup = self.config.seed, self.config.mixup
        self.generator.manual_seed(seed_of(seed, "views", number))
        for group in self.optimiser.param_groups:
            _set_rate(group, number, total)
        if mixup:
            self.kept.fill_(np.random.default_rng(seed_of(seed, "mixing", number)).beta(mixup, mixup))
        for average in self.averages:
            average.prepare(number)

    def parts(self) -> list[nn.Module]:
        """The modules that a step runs through and that may be anybody's."""
        return [self.network.encoder]

    def views(self) -> list[View]:
        """The views that a step draws."""
        return [self.view]

    def run(self) -> Normed:
        """Take all steps; the network that is kept."""
        recorded = self.gpu and all(known_as(view) is not None for view in self.views())
        step: Callable[[Tensor], None] | Captured[None] = self._step
        if recorded and all(is_recordable(part) for part in self.parts()):
            step = Captured(self._step, generators=[self.generator], optimisers=[self.optimiser])
        per_epoch = steps_per_epoch(len(self.rows.x), self.batches)
        with own_stream(self.device):
            for epoch in range(self.batches.epochs):
                with torch.no_grad():
                    self.begin(epoch)
                self.network.train()
                order = epoch_order(self.rows.labelled, self.batches, epoch).to(self.device)
                for number, members in enumerate(order, epoch * per_epoch):
                    self.prepare(number, self.batches.epochs * per_epoch)
                    step(members)
        kept: Normed = self.averages[0].network if self.config.average else self.network
        return kept

    def _step(self, members: Tensor) -> None:
        loss = self.loss(members)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        for average in self.averages:
            average.update()

    def batch(self, members: Tensor) -> Tensor:
        """Rows as floats."""
        return to_float(self.rows.x.index_select(0, members))

    def autocast(self) -> AbstractContextManager[object]:
        """bfloat16 on a GPU, float32 on a CPU."""
        return torch.autocast("cuda", torch.bfloat16) if self.gpu else nullcontext()

    def zeros(self, *shape: int) -> Tensor:
        """Zeros on the device."""
        return torch.zeros(shape, device=self.device)


def start(rows: TuningRows, encoder: nn.Module) -> Normed:
    """A copy of the encoder with its linear head."""
    own = ready_to_tune(encoder, rows.x)
    z = embed(own, rows.x).to(rows.x.device)
    return Normed(own, z, linear(z, rows.labelled, rows.pseudo))


def ready_to_tune(encoder: Network, x: Tensor) -> Network:
    """A copy of the encoder on the device of the rows, with its weights as training lays them out."""
    own = copy.deepcopy(encoder).to(x.device).requires_grad_(True)
    if x.ndim == 4:  # quicker on every device
        own.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return own


@contextmanager
def own_draws(config: TuneConfig, device: torch.device) -> Iterator[None]:
    """The global generator seeded by the configuration, and afterwards as it was.

    Modules may draw from it: a layer when it is initialised, an encoder with dropout.
    """
    with seeded(seed_of(config.seed, "fine-tuning", 0), device):
        yield


def mixed(x: Tensor, goal: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every row of a batch mixed with the one before it, targets by their weights; `kept` is a row's own share."""
    own, other = kept * weight, (1 - kept) * weight.roll(1)
    together = own + other
    target = (own * goal + other * goal.roll(1)) / together.clamp(min=1e-12)
    return kept * x + (1 - kept) * x.roll(1, 0), target, together


def cross_entropy(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """The mean over a batch by the weights of its rows."""
    share = weight / weight.sum().clamp(min=1e-12)
    return F.binary_cross_entropy_with_logits(logits, target, share, reduction="sum")


def view_of(view: str | View | None, x: Tensor, *, mild: bool) -> View:
    """The view of a configuration; of images without one, a shift where it is to be mild."""
    if view is None:
        view = "shift" if mild and x.ndim == 4 else default_view(tuple(x.shape[1:]))
    return make_view(view) if isinstance(view, str) else view


def _set_rate(group: dict[str, Any], step: int, total: int) -> None:
    """The learning rate of a group of parameters, along half a cosine down to 0."""
    rate = scheduled(step, total=total, warmup=0, peak=group["peak"], final=0.0)
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate
