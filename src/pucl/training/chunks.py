"""Cached gradients: the encoder runs over a batch chunk by chunk, the loss still sees the whole batch."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class InChunks(nn.Module):
    """An encoder that runs over the chunks of a batch, and a projection head on the whole batch (Gao et al. 2021).

        ∂L/∂θ = Σ_c (∂h_c/∂θ)ᵀ ∂L/∂h_c,   h_c = f_θ(x_c)

    where x_c are the views of chunk c, f_θ is the encoder and L the loss of the whole batch, a function of all h_c.
    Every chunk goes through the encoder twice: first to find h_c, keeping nothing else; then, once ∂L/∂h_c is known, to
    add its term. So the memory of activations is that of one chunk, and the gradient is that of the whole batch.

    The second pass repeats what the first one drew from torch's default generators (dropout). Batch norm in the encoder
    takes its statistics from one chunk, as if the chunk were the batch; its running statistics change in the first
    pass alone, once for each chunk. The head, which is small, takes the statistics of the whole batch.

    Args:
        network: encoder and head.
        count: how many chunks a batch has.
    """

    def __init__(self, network: nn.Module, count: int) -> None:
        super().__init__()
        self.encoder, self.head = network.children()
        self.count = count

    def forward(self, batch: Tensor, views: Callable[[int, Tensor], Tensor]) -> Tensor:
        """The projections of all rows; ``views(c, rows)`` gives the views of chunk c of the batch, always the same."""

        def embed(c: int, rows: Tensor) -> Tensor:
            out: Tensor = self.encoder(views(c, rows))
            return out

        def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
            return nullcontext(), buffers_kept(self.encoder)

        h = torch.cat(
            [
                checkpoint(embed, c, rows, use_reentrant=False, context_fn=contexts)
                for c, rows in enumerate(batch.chunk(self.count))
            ]
        )
        out: Tensor = self.head(h)
        return out


@contextmanager
def buffers_kept(network: nn.Module) -> Iterator[None]:
    """While this lasts, the network changes copies of its buffers, such as running statistics, instead of them."""
    buffers = [(module, name, value) for module in network.modules() for name, value in module.named_buffers("", False)]
    for module, name, value in buffers:
        setattr(module, name, value.clone())
    try:
        yield
    finally:
        for module, name, value in buffers:
            setattr(module, name, value)
