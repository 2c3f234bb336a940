"""A queue of past rows on the device (He et al. 2020), whose place is a tensor so that it works inside a CUDA graph."""

import torch
from torch import Tensor


class Queue:
    """The last `length` rows of some quantities, oldest overwritten first.

    Args:
        length: how many rows are kept.
        columns: by name a blank row of what is kept: its shape, type and device.
    """

    def __init__(self, length: int, **columns: Tensor) -> None:
        self.columns = {name: like.expand(length, *like.shape).clone() for name, like in columns.items()}
        device = next(iter(columns.values())).device
        self.filled = torch.zeros(length, dtype=torch.bool, device=device)
        self.at = torch.zeros((), dtype=torch.long, device=device)

    def __getitem__(self, name: str) -> Tensor:
        """All rows of one quantity, (length, …); those never written are blank, see `filled`."""
        return self.columns[name]

    @torch.no_grad()
    def push(self, **rows: Tensor) -> None:
        """Append as many rows to each quantity."""
        count = len(next(iter(rows.values())))
        place = (self.at + torch.arange(count, device=self.at.device)) % len(self.filled)
        for name, values in rows.items():
            self.columns[name].index_copy_(0, place, values.detach().to(self.columns[name].dtype))
        self.filled.index_fill_(0, place, True)
        self.at.copy_((self.at + count) % len(self.filled))
