"""What a run reports: its history, a progress bar, a log, and warnings that need no negatives."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor

from pucl.distributed import rank_and_world
from pucl.errors import RunError, RunWarning
from pucl.training.checkpoints import Checkpoints
from pucl.training.log import RunLog
from pucl.training.monitor import Health, complaints, measure, separation
from pucl.training.progress import Bar
from pucl.training.update import Result

if TYPE_CHECKING:
    from pucl.training.run import Run

LOOKS = 100  # health checks of a run, at most


@dataclass(frozen=True)
class Epoch:
    """The figures of an epoch; images are samples, each seen in two views."""

    number: int
    of: int
    loss: float
    learning_rate: float
    images_per_second: float = field(default=math.nan, compare=False)
    health: Health | None = None

    @classmethod
    def of_dict(cls, fields: Mapping[str, Any]) -> "Epoch":
        """From what `dataclasses.asdict` gave."""
        health = fields["health"]
        return cls(**{**fields, "health": Health(**health) if health else None})


@dataclass(frozen=True)
class Watch:
    """How a run is reported, and where it is saved.

    Attributes:
        on_epoch: called with the `Epoch` after every epoch, on every process.
        on_step: called after every step, with the steps that are done and all steps.
        progress: show a live bar, if stderr is a terminal.
        log: file for one JSON line per epoch.
        tensorboard: folder for TensorBoard.
        checkpoints: where the run saves itself.
        resume: continue from the newest checkpoint, if there is one.
        identity: what identifies the run; checkpoints of another run are refused.
        embed_seen_and_held_out: gives the embeddings of labelled positives seen in training and held out from it, for
            the warning about overfitting.
    """

    on_epoch: Callable[[Epoch], None] = lambda _: None
    on_step: Callable[[int, int], None] = lambda _done, _all: None
    progress: bool = False
    log: Path | None = None
    tensorboard: Path | None = None
    checkpoints: Checkpoints | None = None
    resume: bool = False
    identity: Mapping[str, Any] = field(default_factory=dict)
    embed_seen_and_held_out: Callable[[], tuple[Tensor, Tensor]] | None = None


class Reporter:
    """Reports on one run; of several processes only the first does."""

    def __init__(self, run: "Run") -> None:
        self.run, self.watch = run, run.watch
        self.first = rank_and_world()[0] == 0
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        run, watch = self.run, self.watch
        files = (watch.log, watch.tensorboard) if self.first else (None, None)
        self.log = self.stack.enter_context(RunLog(*files, resume_from=run.at if watch.resume else None))
        seen, length = watch.progress and self.first, run.per_epoch
        bar = Bar(epochs=run.config.epochs, steps_per_epoch=length, first_step=run.at, enabled=seen)
        self.bar = self.stack.enter_context(bar)
        self.began, self.since = time.perf_counter(), run.at
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.__exit__(kind, error, trace)

    def step(self, result: Result) -> None:
        """After every step."""
        self.last = result
        self.bar.update(self.run.at, self._mean_loss, self.run.config.batch_size)
        self.watch.on_step(self.run.at, self.run.total)

    def epoch(self) -> None:
        """After every epoch."""
        run, config = self.run, self.run.config
        number, loss = run.at // run.per_epoch, self._mean_loss()  # waits for the device
        if not math.isfinite(loss):
            raise RunError(self._diverged(number, loss))
        now = time.perf_counter()
        speed = (run.at - self.since) * config.batch_size / (now - self.began)
        self.began, self.since = now, run.at  # what follows counts for the next epoch
        health = self._health(number, self.last)
        run.history.append(Epoch(number, config.epochs, loss, float(run.rate), speed, health))
        if self.first:
            self._log(run.history[-1])
        self.watch.on_epoch(run.history[-1])

    def _mean_loss(self) -> float:
        return float(self.run.running) / (self.run.at % self.run.per_epoch or self.run.per_epoch)

    def _health(self, number: int, result: Result) -> Health | None:
        epochs = self.run.config.epochs
        if number % max(1, epochs // LOOKS) and number != epochs:
            return None
        if self.watch.embed_seen_and_held_out is None:
            return measure(result.z1, result.z2)
        seen, held_out = self.watch.embed_seen_and_held_out()
        apart = separation(seen, held_out)
        return measure(result.z1, result.z2, separation=apart, n_held=len(held_out), n_seen=len(seen))

    def _log(self, epoch: Epoch) -> None:
        run, health = self.run, epoch.health
        known = {text.split(":")[0] for text in run.warnings}
        early = epoch.number <= max(1, epoch.of // 10)  # the first epochs are rough in every run
        problems = [] if health is None or early else complaints(health)
        new = [text for text in problems if text.split(":")[0] not in known]
        run.warnings += new
        record = {
            "epoch": epoch.number,
            "step": run.at,
            "loss": epoch.loss,
            "learning_rate": epoch.learning_rate,
            "images_per_second": round(epoch.images_per_second, 1),
        }
        if health is not None:
            record |= {name: getattr(health, name) for name in ("alignment", "uniformity", "rank", "separation")}
        self.log.write({**record, "warnings": new})
        for text in new:
            warnings.warn(text, RunWarning, stacklevel=2)

    def _diverged(self, number: int, loss: float) -> str:
        where = self.watch.checkpoints
        kept = f" The checkpoints in {where.folder} are older and intact." if where is not None else ""
        return (
            f"training: the loss is {loss} after epoch {number} of {self.run.config.epochs}: lower the learning "
            f"rate (now {self.run.config.learning_rate:g}), clip the gradient, or train in float32.{kept}"
        )
