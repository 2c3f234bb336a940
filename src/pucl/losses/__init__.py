"""Contrastive objectives for PU data. All of them are means over anchors of ``log Z(z_i) − z_i · t_i / τ``.

z_i is the L2-normalised projection of view i, Z its partition function over the batch and t_i the point it is drawn
to: a weighted mean of other rows. An objective is one short file that says what t_i is.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pucl.distributed import gather, mean_over_ranks
from pucl.errors import Described, bad_argument, check_positive, check_share, signed_by
from pucl.labels import as_labels, batch_labels
from pucl.losses.pairs import Pairs
from pucl.losses.partition import Implementation
from pucl.numerics.floats import check_finite
from pucl.registry import check_options, get

OWNER = "pucl.contrastive_loss"
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]


def contrastive_loss(
    name: str,
    z1: Tensor,
    z2: Tensor,
    s: Any,
    *,
    temperature: float = 0.5,
    prior: float | None = None,
    mixing: float | None = None,
    implementation: Implementation = "auto",
    gather_distributed: bool = False,
    **options: Any,
) -> Tensor:
    """The objective `name` on a batch of pairs, as a scalar tensor. `ContrastiveLoss` is the same as a module.

    Args:
        name: a registered loss, such as ``"pucl"``.
        z1: projections of the first views (n, d), not yet normalised.
        z2: projections of the second views (n, d), row by row the same samples as `z1`.
        s: PU labels (n), 1 for labelled positives and 0 for unlabelled rows (for ``"scl"`` the true classes).
        temperature: τ > 0.
        prior: π, the share of positives among the unlabelled rows, for objectives that need it.
        mixing: λ within [0, 1], for ``"mcl"``.
        implementation: how log Z is computed; see `pucl.losses.partition.log_partition`.
        gather_distributed: with `torch.distributed` initialised, contrast every anchor with the rows of all processes.
            Each passes its own pairs, the same number on each, and the value is that of one process with all pairs; so
            is the gradient of each process's own rows once all have called ``backward``. Where gradients are then
            averaged over processes, as by DistributedDataParallel, multiply the loss by their number.
        options: what else the objective takes.
    """
    _check_views(OWNER, z1, z2)
    _check_values(z1, z2, gather_distributed)
    labelled = torch.from_numpy(as_labels(s, n_rows=len(z1), owner=OWNER)).to(z1.device)
    objective = make_objective(
        name, temperature=temperature, prior=prior, mixing=mixing, implementation=implementation,
        gather_distributed=gather_distributed, **options,
    )  # fmt: skip
    return objective(z1, z2, labelled)


class ContrastiveLoss(nn.Module):
    """A contrastive objective as a module without parameters: ``ContrastiveLoss("pucl")(z1, z2, s)``.

    The arguments are those of `contrastive_loss`, and are checked here, once. Of a batch only shapes and types are
    checked: NaN and infinity go through to the loss, as gradient scalers expect. A batch may have no labelled row, or
    only such.
    """

    def __init__(
        self,
        name: str,
        *,
        temperature: float = 0.5,
        prior: float | None = None,
        mixing: float | None = None,
        implementation: Implementation = "auto",
        gather_distributed: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        given = {"temperature": temperature, "prior": prior, "mixing": mixing, **options}
        with signed_by("ContrastiveLoss"):
            self.objective = make_objective(
                name, **given, implementation=implementation, gather_distributed=gather_distributed
            )
        self.name, self.given = name, {key: value for key, value in given.items() if value is not None}

    def forward(self, z1: Tensor, z2: Tensor, s: Any) -> Tensor:
        """The loss of a batch, a scalar.

        Args:
            z1: projections of the first views (n, d), not yet normalised, in any floating type.
            z2: projections of the second views (n, d), row by row the same samples as `z1`.
            s: PU labels (n,), 1 for labelled positives and 0 for unlabelled rows, as bool, int or float. Others than
                bool tensors are looked at, for which the host waits for a GPU.
        """
        _check_views("ContrastiveLoss", z1, z2)
        return self.objective(z1, z2, batch_labels(s, n_rows=len(z1), owner="ContrastiveLoss").to(z1.device))

    def extra_repr(self) -> str:
        """The name and the options, as they were given."""
        return ", ".join([repr(self.name), *(f"{key}={value!r}" for key, value in self.given.items())])


def make_objective(
    name: str,
    *,
    temperature: float = 0.5,
    prior: float | None = None,
    mixing: float | None = None,
    implementation: Implementation = "auto",
    gather_distributed: bool = True,
    **options: Any,
) -> Objective:
    """The objective `name` with its parameters checked and set: ``(z1, z2, labelled) → scalar``.

    The batches themselves are not checked, so a training loop on a GPU never waits for the host. A prior or a mixing
    that the objective does not use is checked and ignored, so that objectives can be swapped by name.
    """
    entry = get("losses", name)
    check_options(entry, options)
    takes = inspect.signature(entry.function).parameters
    options["temperature"] = check_positive(OWNER, "temperature", temperature)
    if prior is not None or entry.needs_prior:
        prior = check_share(f"{OWNER}({name!r})", "prior", prior)
    if mixing is not None or "mixing" in takes:
        mixing = check_share(f"{OWNER}({name!r})", "mixing", mixing, closed=True)
    options |= {key: value for key, value in (("prior", prior), ("mixing", mixing)) if key in takes}
    return partial(_mean_loss, entry.function, options, implementation, gather_distributed)


def _mean_loss(
    loss: Callable[..., Tensor],
    options: Mapping[str, Any],
    implementation: Implementation,
    together: bool,
    z1: Tensor,
    z2: Tensor,
    labelled: Tensor,
) -> Tensor:
    """The mean over the anchors of a batch, or of those of all processes; losses choose their own precision."""
    with torch.autocast(z1.device.type, enabled=False):
        terms = loss(Pairs.of(z1, z2, labelled, implementation, gather_distributed=together), **options)
        return mean_over_ranks(terms) if together else terms.mean()


def _check_views(owner: str, z1: Tensor, z2: Tensor) -> None:
    for attribute in ("shape", "dtype", "device"):
        first, second = getattr(z1, attribute), getattr(z2, attribute)
        if first != second:
            raise bad_argument(owner, "z2", f"of the same {attribute} as z1 ({first})", Described(str(second)))
    if z1.ndim != 2 or len(z1) == 0 or not z1.is_floating_point():
        got = Described(f"{z1.dtype} of shape {tuple(z1.shape)}")
        raise bad_argument(owner, "z1", "a floating-point tensor of shape (n, d) with n ≥ 1", got)


def _check_values(z1: Tensor, z2: Tensor, together: bool) -> None:
    for name, z in (("z1", z1), ("z2", z2)):
        check_finite(OWNER, name, z)
    sizes = gather(torch.tensor([len(z1)], device=z1.device)).tolist() if together else [len(z1)]
    if len(set(sizes)) > 1:
        raise bad_argument(OWNER, "z1", "of the same length on every process", Described(f"lengths {sizes}"))
