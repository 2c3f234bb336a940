"""Which rows make up which batch, and how they reach the device: all at the start, or streamed."""

import queue
import threading
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from pucl.errors import Described, bad_argument
from pucl.numerics.starting import start
from pucl.seeds import seed_of
from pucl.training.config import TrainConfig

AHEAD = 3  # batches a streamed run reads in advance
FILL = 0.5  # the largest share of the free memory of a GPU that rows may take


def steps_per_epoch(n: int, config: TrainConfig) -> int:
    """How many full batches one pass has."""
    if config.batch_size > n:
        got = Described(f"{config.batch_size:,}")
        raise bad_argument("TrainConfig", "batch_size", f"at most the number of rows ({n:,})", got)
    return n // config.batch_size


def epoch_order(labelled: Tensor, config: TrainConfig, epoch: int) -> Tensor:
    """The rows of every batch of an epoch, (steps, batch_size), on the CPU: the same on every machine.

    Without `labelled_share`, one shuffled pass; a remainder smaller than a batch is left for another epoch. With it,
    every batch has round(share · batch_size) labelled rows, at least one and not all; labelled and unlabelled rows each
    come in shuffled passes of their own, as many as it takes. They are dealt out evenly to the chunks of a batch, so
    that the statistics of batch norm do not give away who is labelled.
    """
    generator = Generator().manual_seed(seed_of(config.seed, "order", epoch))
    steps, size = steps_per_epoch(len(labelled), config), config.batch_size
    if config.labelled_share is None:
        return torch.randperm(len(labelled), generator=generator)[: steps * size].view(steps, size)
    n_labelled = min(max(round(config.labelled_share * size), 1), size - 1)
    chosen, others = labelled.cpu().nonzero().flatten(), (~labelled.cpu()).nonzero().flatten()
    parts = ((chosen, n_labelled), (others, size - n_labelled))
    order = torch.cat([passes(rows, steps * k, generator).view(steps, k) for rows, k in parts], dim=1)
    return order.view(steps, -1, config.chunks).transpose(1, 2).flatten(1)


def passes(rows: Tensor, n: int, generator: Generator) -> Tensor:
    """The first n rows of as many shuffled passes as it takes."""
    passes = [rows[torch.randperm(len(rows), generator=generator)] for _ in range(-(-n // len(rows)))]
    return torch.cat(passes)[:n]


def fits(x: Tensor, device: torch.device, resident: bool | None) -> bool:
    """Whether all rows are to lie on the device."""
    if resident is not None or device.type != "cuda" or x.device == device:
        return resident is not False
    free, _ = torch.cuda.mem_get_info(device)
    return x.numel() * x.element_size() <= FILL * free


def resident_batches(x: Tensor, order: Tensor) -> Iterator[Tensor]:
    """Batches of rows that lie on the device already; `order` must lie there too."""
    for rows in order:
        yield x.index_select(0, rows)


def streamed_batches(x: Tensor, order: Tensor, device: torch.device) -> Iterator[Tensor]:
    """Batches of rows in the memory of the host or on disk, read and copied by a thread that stays a little ahead."""
    ready: queue.Queue[tuple[Tensor, torch.cuda.Event | None] | BaseException | None] = queue.Queue(AHEAD)
    stop = threading.Event()

    def read() -> None:
        try:
            for rows in order:
                batch = _copied(x.index_select(0, rows), device)
                while not stop.is_set():
                    try:
                        ready.put(batch, timeout=0.1)
                        break
                    except queue.Full:
                        continue
                if stop.is_set():
                    return
            ready.put(None)
        except BaseException as error:  # raised where the batch is wanted
            ready.put(error)

    thread = threading.Thread(target=read, name="pucl-batches", daemon=True)
    try:
        start(thread)
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            batch, copied = item
            if copied is not None:
                torch.cuda.current_stream(device).wait_event(copied)
                batch.record_stream(torch.cuda.current_stream(device))
            yield batch
    finally:
        stop.set()
        if thread.ident is not None:  # else it could not be started
            thread.join()


def _copied(batch: Tensor, device: torch.device) -> tuple[Tensor, torch.cuda.Event | None]:
    """The batch on the device, and what to wait for before using it."""
    if device.type != "cuda":
        return batch.to(device), None
    with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
        there = batch.pin_memory().to(device, non_blocking=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
    return there, copied
