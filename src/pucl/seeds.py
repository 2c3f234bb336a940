"""Seeds for every random choice of a run, computed from its place in the run instead of carried along."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_of(seed: int, purpose: str, number: int) -> int:
    """A seed of its own for the `number`-th epoch or step, below 2⁶³.

    Nothing has to be remembered to go on from any step, and neither the device nor the number of processes matters.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Inside, what draws from torch's global generator draws from this seed; afterwards that is as it was.

    `torch.manual_seed` does more: it seeds the generators of every other device, which nobody would put back, and keeps
    a note of each call for devices that are not there, so that the memory of a process grows.

    Args:
        seed: for the CPU, where networks are made.
        device: a GPU on which something draws, too.
    """
    gpu = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpu):
        torch.default_generator.manual_seed(int(seed))
        for each in gpu:
            with torch.cuda.device(each):
                torch.cuda.manual_seed(int(seed))
        yield
