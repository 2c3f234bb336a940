"""Linear heads by full-batch descent on a PU risk: deterministic, the same on every run, quick on a CPU."""

from collections.abc import Callable

import torch
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.heads import LinearHead
from pucl.heads.scaling import Scaling
from pucl.training.schedule import learning_rate as scheduled

BETAS = (0.9, 0.99)  # of Adam


def fit_linear(
    owner: str,
    z: Tensor,
    risk: Callable[[Tensor], Tensor],
    *,
    steps: int,
    learning_rate: float,
    l2: float,
) -> LinearHead:
    """The linear head that Adam reaches from 0 on the risk of all rows.

        min_{w, b}  R(w · z + b) + (l2 / 2) ‖w‖²

    where z are the embeddings, centred and scaled to unit variance, see `Scaling`. The learning rate falls to 0 along
    half a cosine. The gradient that `risk` brings along need not be that of its value.
    """
    check_count(owner, "steps", steps)
    check_positive(owner, "learning_rate", learning_rate)
    check_positive(owner, "l2", l2)
    scaling = Scaling.of(z)
    rows = scaling(z)
    weight = torch.zeros(z.shape[1], dtype=z.dtype, device=z.device, requires_grad=True)
    bias = torch.zeros((), dtype=z.dtype, device=z.device, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=learning_rate, betas=BETAS)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = scheduled(step, total=steps, warmup=0, peak=learning_rate, final=0.0)
        optimiser.zero_grad()
        loss = risk(rows @ weight + bias) + l2 / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return scaling.head(weight.detach(), bias.detach())
