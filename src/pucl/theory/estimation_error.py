"""lemma:bound_estimation_bias: how far the product of two centroids is off when both are estimated."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.registry import register
from pucl.theory.comparison import Comparison, exact

N, DIM = 100_000, 4


def allowed(zeta_m: Tensor, zeta_n: Tensor) -> Tensor:
    """The bound ζ_m + ζ_n + ζ_m ζ_n."""
    return zeta_m + zeta_n + zeta_m * zeta_n


@register("statements", reference="lemma:bound_estimation_bias", inputs=("vector",))
def estimation_error(*, seed: int = 0) -> tuple[Comparison, ...]:
    """Errors in two centroids change their product by no more than the errors together.

        |x_m · x_n| − |x̂_m · x̂_n| ≤ ζ_m + ζ_n + ζ_m ζ_n,    ζ = ‖x̂ − x‖

    where ‖x_m‖ = ‖x_n‖ = 1. It holds, also with ‖x‖ ≤ 1 and without the bars, as th:generalization needs it: the
    difference is (x_m − x̂_m) · x_n + x̂_m · (x_n − x̂_n) and ‖x̂_m‖ ≤ 1 + ζ_m. The first step of the proof puts ‖x̂_m‖‖x̂_n‖
    in the place of |x̂_m · x̂_n|, in the wrong direction.
    """
    generator = Generator().manual_seed(seed)
    x_m, x_n = (F.normalize(torch.randn(N, DIM, generator=generator, dtype=torch.float64), dim=1) for _ in range(2))
    size = 2 * torch.rand(2, N, 1, generator=generator, dtype=torch.float64)
    off = size * F.normalize(torch.randn(2, N, DIM, generator=generator, dtype=torch.float64), dim=2)
    off[:, : N // 2] = torch.stack([-size[0] * x_n, -size[1] * x_m])[:, : N // 2]  # the worst directions
    hat_m, hat_n = x_m + off[0], x_n + off[1]
    bound = allowed(off[0].norm(dim=1), off[1].norm(dim=1))
    true, estimated = (x_m * x_n).sum(dim=1), (hat_m * hat_n).sum(dim=1)
    with_bars = true.abs() - estimated.abs()
    step = with_bars - (true.abs() - hat_m.norm(dim=1) * hat_n.norm(dim=1))
    return (
        _largest("of |x_m · x_n| − |x̂_m · x̂_n| over the bound", with_bars - bound),
        _largest("of x_m · x_n − x̂_m · x̂_n over the bound", true - estimated - bound),
        Comparison(
            "largest excess of the lemma's left side over its second line in the proof", 0.0, exact(step.max()),
            relation="≤", note="The step is wrong, the lemma is not: see its docstring for a proof.",
        ),
    )  # fmt: skip


def _largest(what: str, excess: Tensor) -> Comparison:
    return Comparison(f"largest excess {what}, {len(excess):,} draws", 0.0, exact(excess.max()), relation="≤")
