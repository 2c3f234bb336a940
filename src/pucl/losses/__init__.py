"""Contrastive objectives for PU data. All of them are means over anchors of ``log Z(z_i) − z_i · t_i / τ``.

z_i is the L2-normalised projection of view i, Z its partition function over the batch and t_i the point it is drawn
to: a weighted mean of other rows. An objective is one short file that says what t_i is.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from pucl.distributed import gather, mean_over_ranks
from pucl.errors import Described, bad_argument, check_positive, check_share, unknown_name
from pucl.labels import as_labels
from pucl.losses.pairs import Pairs
from pucl.losses.partition import Implementation
from pucl.registry import Entry, get

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
    **options: Any,
) -> Tensor:
    """The objective `name` on a batch of pairs, as a scalar tensor.

    With `torch.distributed` initialised, every process passes its own pairs (the same number on each), every anchor is
    contrasted with the rows of all processes, and the value is that of one process with all pairs; so is the gradient
    of each process's own rows once all have called ``backward``.

    Args:
        name: a registered loss, such as ``"pucl"``.
        z1: projections of the first views (n, d), not yet normalised.
        z2: projections of the second views (n, d), row by row the same samples as `z1`.
        s: PU labels (n), 1 for labelled positives and 0 for unlabelled rows (for ``"scl"`` the true classes).
        temperature: τ > 0.
        prior: π, the share of positives among the unlabelled rows, for objectives that need it.
        mixing: λ within [0, 1], for ``"mcl"``.
        implementation: how log Z is computed; see `pucl.losses.partition.log_partition`.
        options: what else the objective takes.
    """
    _check_views(z1, z2)
    labelled = torch.from_numpy(as_labels(s, n_rows=len(z1), owner=OWNER)).to(z1.device)
    objective = make_objective(
        name, temperature=temperature, prior=prior, mixing=mixing, implementation=implementation, **options
    )
    return objective(z1, z2, labelled)


def make_objective(
    name: str,
    *,
    temperature: float = 0.5,
    prior: float | None = None,
    mixing: float | None = None,
    implementation: Implementation = "auto",
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

    def objective(z1: Tensor, z2: Tensor, labelled: Tensor) -> Tensor:
        with torch.autocast(z1.device.type, enabled=False):  # losses choose their own precision
            return mean_over_ranks(entry.function(Pairs.of(z1, z2, labelled, implementation), **options))

    return objective


def check_options(entry: Entry, given: Mapping[str, Any]) -> None:
    """Refuse options that a loss does not have, and words that it does not know."""
    takes = inspect.signature(entry.function).parameters.keys() - {"pairs"}
    kinds = get_type_hints(entry.function)
    for option, value in given.items():
        if option not in takes:
            raise unknown_name(f"option of {entry.name}", option, takes)
        words = get_args(kinds[option])
        if get_origin(kinds[option]) is Literal and value not in words:
            raise unknown_name(f"{option} of {entry.name}", value, words)


def _check_views(z1: Tensor, z2: Tensor) -> None:
    for attribute in ("shape", "dtype", "device"):
        first, second = getattr(z1, attribute), getattr(z2, attribute)
        if first != second:
            raise bad_argument(OWNER, "z2", f"of the same {attribute} as z1 ({first})", Described(str(second)))
    if z1.ndim != 2 or len(z1) == 0 or not z1.is_floating_point():
        got = Described(f"{z1.dtype} of shape {tuple(z1.shape)}")
        raise bad_argument(OWNER, "z1", "a floating-point tensor of shape (n, d) with n ≥ 1", got)
    for name, z in (("z1", z1), ("z2", z2)):
        bad = (~torch.isfinite(z).all(dim=1)).nonzero().flatten().tolist()
        if bad:
            raise bad_argument(OWNER, name, "finite", Described(f"NaN or infinity in rows {bad}"))
    sizes = gather(torch.tensor([len(z1)], device=z1.device)).tolist()
    if len(set(sizes)) > 1:
        raise bad_argument(OWNER, "z1", "of the same length on every process", Described(f"lengths {sizes}"))
