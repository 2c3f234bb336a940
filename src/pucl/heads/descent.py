"""Linear heads by full-batch descent on a PU risk: deterministic, the same on every run, quick on a CPU."""

from collections.abc import Callable

import torch
from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.heads import LinearHead
from pucl.heads.scaling import Scaling
from pucl.training.schedule import learning_rate as scheduled

DECAY, DECAY_SQUARED, TINY = 0.9, 0.99, 1e-8  # Adam's


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
    weight = torch.zeros(z.shape[1] + 1, dtype=z.dtype, device=z.device)  # the last one is the intercept
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(steps):
        logits = (rows @ weight[:-1] + weight[-1]).requires_grad_()
        (slope,) = torch.autograd.grad(risk(logits), logits)
        gradient = torch.cat([slope @ rows + l2 * weight[:-1], slope.sum()[None]])
        mean.lerp_(gradient, 1 - DECAY)
        square.lerp_(gradient.square(), 1 - DECAY_SQUARED)
        unbiased = mean / (1 - DECAY ** (step + 1)), square / (1 - DECAY_SQUARED ** (step + 1))
        rate = scheduled(step, total=steps, warmup=0, peak=learning_rate, final=0.0)
        weight -= rate * unbiased[0] / (unbiased[1].sqrt() + TINY)
    return scaling.head(weight[:-1], weight[-1])
