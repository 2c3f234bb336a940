"""Vectors of random views of rows, computed once, for a projection that is trained on them."""

import torch
from torch import Generator, Tensor
from torch import device as Device

from pucl.encoders.frozen.embedding import CPU, embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.inputs import to_float
from pucl.seeds import seed_of
from pucl.views import View

VIEWS = 2  # random views of every row
VIEWED, GPU_VIEWED = 256, 2048  # rows that are viewed together


def view_vectors(
    encoder: FrozenEncoder,
    rows: Tensor,
    vectors: Tensor,
    view: View,
    *,
    seed: int,
    owner: str = "pucl",
    device: Device = CPU,
    keep: bool = True,
) -> Tensor:
    """The vectors of the rows and of `VIEWS` random views of them, (n, VIEWS + 1, k); views of bytes are bytes.

    Args:
        encoder: what made the vectors.
        rows: as a model takes them, (n, …).
        vectors: of the rows, (n, k).
        view: makes a view of floats.
        seed: of the views, which differ from device to device.
        owner: what the user called.
        device: where to compute.
        keep: whether the cache may be used.
    """
    banks = [vectors]
    together = GPU_VIEWED if device.type == "cuda" else VIEWED
    for number in range(VIEWS):
        generator = Generator(device=device).manual_seed(seed_of(seed, "frozen views", number))
        seen = torch.cat(
            [_seen(view, piece.to(device), generator).to(rows.device) for piece in torch.split(rows, together)]
        )
        banks.append(embed_frozen(encoder, seen, owner=owner, device=device, keep=keep))
    return torch.stack(banks, dim=1)


def _seen(view: View, piece: Tensor, generator: Generator) -> Tensor:
    """A view of some rows, of their own type."""
    seen = view(to_float(piece), generator)
    return (seen * 255).round().clamp(0, 255).to(torch.uint8) if piece.dtype == torch.uint8 else seen
