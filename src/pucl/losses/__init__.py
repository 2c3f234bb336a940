"""Contrastive objectives for PU data. All of them are means over anchors of ``log Z(z_i) − z_i · t_i / τ``.

z_i is the L2-normalised projection of view i, Z its partition function over the batch and t_i the point it is drawn
to: a weighted mean of other rows. An objective is one short file that says what t_i is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pucl.errors import Described, bad_argument, check_positive, check_share
from pucl.labels import as_labels
from pucl.losses.pairs import Pairs
from pucl.registry import get

OWNER = "pucl.contrastive_loss"
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]


def contrastive_loss(
    name: str, z1: Tensor, z2: Tensor, s: Any, *, temperature: float = 0.5, prior: float | None = None, **options: Any
) -> Tensor:
    """The objective `name` on a batch of pairs, as a scalar tensor.

    Args:
        name: a registered loss, such as ``"pucl"``.
        z1: projections of the first views (n, d), not yet normalised.
        z2: projections of the second views (n, d), row by row the same samples as `z1`.
        s: PU labels (n), 1 for labelled positives and 0 for unlabelled rows.
        temperature: τ > 0.
        prior: π, the share of positives among the unlabelled rows, for objectives that need it.
        options: what else the objective takes.
    """
    _check_views(z1, z2)
    labelled = torch.from_numpy(as_labels(s, n_rows=len(z1), owner=OWNER)).to(z1.device)
    return make_objective(name, temperature=temperature, prior=prior, **options)(z1, z2, labelled)


def make_objective(name: str, *, temperature: float = 0.5, prior: float | None = None, **options: Any) -> Objective:
    """The objective `name` with its parameters checked and set: ``(z1, z2, labelled) → scalar``.

    The batches themselves are not checked again, so a training loop on a GPU never waits for the host.
    """
    entry = get("losses", name)
    options["temperature"] = check_positive(OWNER, "temperature", temperature)
    if prior is not None:
        check_share(OWNER, "prior", prior)
    if entry.needs_prior:
        if prior is None:
            raise bad_argument(f"{OWNER}({name!r})", "prior", "a number strictly between 0 and 1", prior)
        options["prior"] = prior
    return partial(_mean_over_anchors, entry.function, options)


def _mean_over_anchors(
    loss: Callable[..., Tensor], options: dict[str, Any], z1: Tensor, z2: Tensor, labelled: Tensor
) -> Tensor:
    return loss(Pairs.of(z1, z2, labelled), **options).mean()


def _check_views(z1: Tensor, z2: Tensor) -> None:
    for name, z in (("z1", z1), ("z2", z2)):
        if z.ndim != 2 or len(z) == 0 or not z.is_floating_point():
            got = Described(f"{z.dtype} of shape {tuple(z.shape)}")
            raise bad_argument(OWNER, name, "a floating-point tensor of shape (n, d) with n ≥ 1", got)
        bad = (~torch.isfinite(z).all(dim=1)).nonzero().flatten().tolist()
        if bad:
            raise bad_argument(OWNER, name, "finite", Described(f"NaN or infinity in rows {bad}"))
    for what in ("shape", "dtype", "device"):
        first, second = getattr(z1, what), getattr(z2, what)
        if first != second:
            raise bad_argument(OWNER, "z2", f"of the same {what} as z1 ({first})", Described(str(second)))
