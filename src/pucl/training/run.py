"""The training loop over rows, labels, a view, a network and an objective; it knows no registered names."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from pucl.distributed import averaging, own_part, rank_and_world, shared_batch_norm
from pucl.errors import Described, bad_argument
from pucl.losses import Objective
from pucl.numerics.memory import kept_memory
from pucl.seeds import seed_of
from pucl.training.averaging import WeightAverage
from pucl.training.batches import epoch_order, fits, resident_batches, steps_per_epoch, streamed_batches
from pucl.training.capture import Captured
from pucl.training.chunks import InChunks
from pucl.training.config import TrainConfig
from pucl.training.memory import does_not_fit, fitting_batch, is_out_of_memory
from pucl.training.optimisers import make_optimiser
from pucl.training.reporting import Epoch, Reporter, Watch
from pucl.training.schedule import learning_rate
from pucl.training.signals import Stop
from pucl.training.state import restore, save
from pucl.training.update import Result, Update
from pucl.views import View
from pucl.views.row_generator import rows_generator

SAVING = 20  # a run is saved again after this many times the seconds that saving took
OVERDUE = 30.0  # seconds after which it is saved within an epoch, too


class Run:
    """A run of training, taken step by step, so that several can share a device.

    Args:
        network: rows → projections, trained in place; with chunks an encoder and a head, in `nn.Sequential`.
        x: all rows; they are moved to the device or streamed to it, see `TrainConfig.resident`.
        labelled: which rows are labelled, (n,); for other objectives whatever labels they take.
        view: makes the views of a batch.
        objective: (z1, z2, labelled) → scalar.
        config: how to train.
        device: where.
        watch: how the run is reported, and where it is saved.
        rowwise: the view treats every row alone and draws its numbers through `pucl.views.row_generator`, so that each
            of several processes needs its own rows only.
        trusted: network and view are the package's own: the step is captured where it can be.
    """

    def __init__(
        self,
        network: nn.Module,
        x: Tensor,
        labelled: Tensor,
        *,
        view: View,
        objective: Objective,
        config: TrainConfig,
        device: torch.device,
        watch: Watch | None = None,
        rowwise: bool = False,
        trusted: bool = False,
    ) -> None:
        if config.capture and (device.type != "cuda" or rank_and_world()[1] > 1):
            got = Described(f"True on {device}, {rank_and_world()[1]} process(es)")
            raise bad_argument("TrainConfig", "capture", "True on one process with a CUDA device only", got)
        self.config, self.device, self.watch = config, device, watch or Watch()
        self.per_epoch = steps_per_epoch(len(x), config)
        self.total = config.epochs * self.per_epoch
        self.warmup = min(config.warmup_epochs * self.per_epoch, self.total // 10)
        chunk = config.chunk_size or config.batch_size
        self.own = own_part(chunk, "chunk_size" if config.chunk_size else "batch_size")  # the part of every chunk
        self.seen = self.own if rowwise else slice(0, chunk)  # the part of it that is viewed here
        self.trusted = trusted

        self.network = network.to(device)
        if device.type == "cuda" and x.ndim == 4:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.view, self.objective = view, objective
        self.resident = fits(x, device, config.resident)
        self.x = x.to(device) if self.resident else x
        self.labelled = labelled.to(device)
        self.optimiser, self.rate = make_optimiser(config, self.network)
        self.average = WeightAverage(self.network, config.average) if config.average else None
        rank, world = rank_and_world()
        self.generator = rows_generator(device, *((rank, world * config.chunks) if rowwise else (0, 1)))
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

        self.at = 0  # steps taken
        self.saved, self.saving = time.perf_counter(), 0.0  # when it was last saved, and the seconds that took
        self.running = torch.zeros((), device=device)  # sum of the losses of this epoch
        self.history: list[Epoch] = []
        self.warnings: list[str] = []
        restore(self)

    def steps(self) -> Generator[int]:
        """Take the steps that are left, one at a time; yields how many are done."""
        with ExitStack() as stack:
            stack.enter_context(shared_batch_norm(self.network))
            self.network.train()
            stack.callback(self.network.eval)
            reporter = stack.enter_context(Reporter(self))
            stop = stack.enter_context(Stop(active=self.watch.checkpoints is not None))
            chunks = self.config.chunks
            network = self.network if chunks == 1 else InChunks(self.network, chunks)
            update = self._update(stack.enter_context(averaging(network)))
            self._join_streams()
            while self.at < self.total:
                for result in self._epoch(update):
                    reporter.step(result)
                    yield self.at
                    if self.at % self.per_epoch and (stop.requested or self._overdue()):
                        saved = self._save()
                        if stop.requested:
                            stop.leave(saved)
                with self._on_stream():
                    reporter.epoch()
                saved = self._save() if self._due() or stop.requested else None
                if stop.requested:
                    stop.leave(saved)
            self._join_streams()
            if self.average is not None:
                self.network.load_state_dict(self.average.network.state_dict())

    def _epoch(self, update: Callable[[Tensor, Tensor], Result]) -> Iterator[Result]:
        """The steps of the epoch that are left, each from its own seeds."""
        epoch, done = divmod(self.at, self.per_epoch)
        order = epoch_order(self.labelled, self.config, epoch)[done:]
        with closing(self._batches(order)) as batches:
            for _ in order:
                with self._on_stream():
                    if self.at % self.per_epoch == 0:
                        self.running.zero_()
                    self.rate.fill_(self.learning_rate)
                    if self.average is not None:
                        self.average.prepare(self.at)
                    self.generator.manual_seed(seed_of(self.config.seed, "views", self.at))
                    result = self._take(update, *next(batches))
                    self.running += result.loss
                self.at += 1
                yield result

    def _batches(self, order: Tensor) -> Generator[tuple[Tensor, Tensor]]:
        """The rows viewed by this process and the labels of its own, batch by batch, on the device."""
        with self._on_stream():
            rows = order.to(self.device)
            labels = self.labelled[self._part(rows, self.own)]
        if self.resident:
            batches = resident_batches(self.x, self._part(rows, self.seen))
        else:
            batches = streamed_batches(self.x, self._part(order, self.seen), self.device)
        yield from zip(batches, labels, strict=True)

    def _part(self, order: Tensor, part: slice) -> Tensor:
        """Of every chunk of every batch (steps, batch_size) some rows, (steps, …)."""
        return order.view(len(order), self.config.chunks, -1)[:, :, part].flatten(1)

    def _take(self, update: Callable[[Tensor, Tensor], Result], batch: Tensor, labelled: Tensor) -> Result:
        try:
            return update(batch, labelled)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        # Outside the handler, whose traceback holds on to the tensors of the failed step.
        config, fits = self.config, None
        if rank_and_world()[1] == 1:  # other processes would wait for these attempts
            one = replace(self._plain_update(self.network), chunks=1, generator=torch.Generator(device=self.device))
            largest = config.chunk_size or config.batch_size
            fits = fitting_batch(lambda n: one.gradient(batch[:n], labelled[:n]), largest, self.device)
        raise does_not_fit(config.batch_size, fits, config.chunk_size)

    def _update(self, network: nn.Module) -> Callable[[Tensor, Tensor], Result]:
        """The step, compiled and captured as configured; captured by default where that is safe."""
        safe = self.device.type == "cuda" and rank_and_world()[1] == 1 and self.trusted and self.config.chunks == 1
        update = self._plain_update(network)
        if self.config.compile:
            update.network = torch.compile(update.network, dynamic=False)  # type: ignore[assignment]
            update.view = torch.compile(update.view, dynamic=False)
        if not (safe if self.config.capture is None else self.config.capture):
            return update
        return Captured(update, generators=[self.generator], optimisers=[self.optimiser])

    def _plain_update(self, network: nn.Module) -> Update:
        low = self.config.precision == "bfloat16" or (self.config.precision == "auto" and self.device.type == "cuda")
        return Update(
            network=network,
            view=self.view,
            objective=self.objective,
            optimiser=self.optimiser,
            generator=self.generator,
            autocast=torch.bfloat16 if low else None,
            clip=self.config.clip,
            average=self.average,
            own=None if self.seen == self.own else self.own,
            chunks=self.config.chunks,
        )

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        config = self.config
        return learning_rate(
            self.at, total=self.total, warmup=self.warmup, peak=config.learning_rate, final=config.final_learning_rate
        )

    def _due(self) -> bool:
        where, epoch = self.watch.checkpoints, self.at // self.per_epoch
        if where is None or self.at == self.total:
            return where is not None
        if where.every is None:
            return time.perf_counter() - self.saved >= SAVING * self.saving
        return epoch % where.every == 0

    def _overdue(self) -> bool:
        """Whether a run that saves itself by the clock should do so within an epoch."""
        where = self.watch.checkpoints
        by_clock = where is not None and where.every is None
        return by_clock and time.perf_counter() - self.saved >= max(OVERDUE, SAVING * self.saving)

    def _save(self) -> Path | None:
        self._join_streams()
        began = time.perf_counter()
        path = save(self)
        self.saved = time.perf_counter()
        self.saving = self.saved - began
        return path

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def _join_streams(self) -> None:
        """Wait until this run's stream and all other streams of the device have finished."""
        if self.stream is not None:
            torch.cuda.synchronize(self.device)


def train(run: Run) -> list[Epoch]:
    """Take all steps of a run and return its history; see `train_together` for several runs at once."""
    train_together([run])
    return run.history


@torch.enable_grad()  # whatever the caller's mode is, or what an interrupted call has left of one
def train_together(runs: list[Run]) -> None:
    """Take the steps of several runs in turn, each on its own stream, since small networks share a GPU well."""
    deterministic = any(run.config.deterministic for run in runs)
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=not deterministic, deterministic=deterministic)
    with flags, kept_memory(runs[0].device):
        going = [run.steps() for run in runs]
        try:
            while going:
                going = [steps for steps in going if next(steps, None) is not None]
        finally:
            for steps in going:
                steps.close()
