"""Embeddings of rows by a frozen encoder: checked, in batches, from the cache where they are there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor
from torch import device as Device

from pucl import cache
from pucl.encoders.embedding import batch_of
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.errors import Described, bad_argument
from pucl.numerics.threads import on_cores

BATCH, SAVED = 64, 2048  # rows that go through together, and after how many new ones the cache is written
GPU_BATCH, GPU_SAVED = 512, 16384  # the same on a GPU
CPU = Device("cpu")


@torch.no_grad()
def embed_frozen(
    encoder: FrozenEncoder,
    rows: Tensor,
    *,
    owner: str = "pucl",
    device: Device = CPU,
    on_progress: Callable[[float], None] | None = None,
    keep: bool = True,
) -> Tensor:
    """Vectors (n, k) in float32 on the CPU; an encoder that does not give one finite vector per row is refused.

    On a GPU, a network that allows it (`half_precision`) computes in float16, whose rounding is that of the TF32 that
    torch uses there for convolutions.

    Args:
        encoder: what to use.
        rows: as a model takes them, (n, …).
        owner: what the user called.
        device: where to compute.
        on_progress: called with the share of the rows that is done.
        keep: whether the cache may be used, for encoders that allow it.
    """
    identity = encoder.identity() if keep and encoder.cached and cache.cache_path() is not None else None
    keys = cache.row_keys(rows.cpu().numpy()) if identity else []
    known = cache.look_up(identity, keys) if identity else {}
    missing = [number for number in range(len(rows)) if not keys or keys[number] not in known]
    worker = encoder.quick().to(device) if missing else encoder
    usual, saved = (GPU_BATCH, GPU_SAVED) if device.type == "cuda" else (BATCH, SAVED)
    batch = batch_of(encoder.network, device, usual)
    parts: list[Tensor] = []
    try:
        for start in range(0, len(missing), saved):
            some = missing[start : start + saved]
            new = _batches(worker, rows, torch.split(torch.tensor(some), batch), owner, device)
            parts.append(_joined([*parts[:1], *new], owner)[len(parts[0]) if parts else 0 :])
            if identity:
                cache.keep(identity, encoder.name, [keys[number] for number in some], parts[-1].numpy())
            if on_progress is not None:
                on_progress((start + len(some)) / len(missing))
    finally:
        encoder.to(CPU)
    if not known:
        return torch.cat(parts)
    computed = torch.cat(parts) if parts else torch.empty(0, len(next(iter(known.values()))))
    z = torch.empty(len(rows), computed.shape[1])
    z[missing] = computed
    there = sorted(set(range(len(rows))) - set(missing))
    z[there] = torch.from_numpy(np.stack([known[keys[number]] for number in there]))
    return z


def _batches(encoder: FrozenEncoder, rows: Tensor, parts: Sequence[Tensor], owner: str, device: Device) -> list[Tensor]:
    """The vectors of all batches; on a CPU side by side where the network is ours and can be shared by threads."""

    @torch.no_grad()
    def one(part: Tensor) -> Tensor:
        return _batch(encoder, rows[part], owner, device)

    shared = device.type == "cpu" and hasattr(encoder.network, "rows_at_once")
    return on_cores(one, parts) if shared else [one(part) for part in parts]


def _batch(encoder: FrozenEncoder, rows: Tensor, owner: str, device: Device) -> Tensor:
    """The vectors of a batch, checked."""
    with _precision(encoder, device):
        out = encoder(rows.to(device))
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(rows) or not out.shape[1]:
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        got = Described(f"{shape} for {len(rows)} rows by {encoder.name}")
        raise bad_argument(owner, "encoder", "one that gives a vector for every row, (n, k)", got)
    out = out.to(CPU, torch.float32)
    bad = int((~out.isfinite().all(dim=1)).sum())
    if bad:
        got = Described(f"NaN or infinity for {bad} of {len(rows)} rows by {encoder.name}")
        raise bad_argument(owner, "encoder", "one that gives finite numbers", got)
    return out


def _precision(encoder: FrozenEncoder, device: Device) -> AbstractContextManager[object]:
    half = device.type == "cuda" and getattr(encoder.network, "half_precision", False)
    return torch.autocast("cuda", torch.float16) if half else nullcontext()


def _joined(parts: list[Tensor], owner: str) -> Tensor:
    """Vectors of several batches as one tensor; those of one length only."""
    lengths = {part.shape[1] for part in parts}
    if len(lengths) > 1:
        got = Described(f"vectors of {' and '.join(map(str, sorted(lengths)))} numbers")
        raise bad_argument(owner, "encoder", "one that gives vectors of the same length for all rows", got)
    return torch.cat(parts)
