"""Risks of PU learning: from logits, PU labels and π to a scalar whose gradient trains a classifier.

π is the share of positives *inside the unlabelled rows*, in every setting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pucl.errors import Described, bad_argument, check_share, signed_by, unknown_name
from pucl.labels import batch_labels
from pucl.numerics.floats import check_finite
from pucl.registry import check_options, get
from pucl.risks.margins import MarginLoss, margin_loss

OWNER = "pucl.pu_risk"

Risk = Callable[[Tensor, Tensor], Tensor]  # of logits (n,) and s (n,) bool
Setting = Literal["case-control", "single-set"]

SETTINGS = ("case-control", "single-set")


def pu_risk(name: str, logits: Tensor, s: Any, *, prior: float, **options: Any) -> Tensor:
    """The risk `name` of a batch, as a scalar tensor to call ``backward`` on. `PURisk` is the same as a module.

    Args:
        name: a registered risk, such as ``"nnpu"``.
        logits: f(x), (n,) or (n, 1), finite, in any floating type; the risk is computed in float32 at least.
        s: PU labels (n,) or (n, 1), 1 for labelled positives and 0 for unlabelled rows, as bool, int or float. Others
            than bool tensors are looked at, for which the host waits for a GPU.
        prior: π, the share of positives among the unlabelled rows.
        options: what else the risk takes, such as ``loss`` or ``beta``.
    """
    return _of_batch(OWNER, _with_options(OWNER, name, prior, options), logits, s, finite=True)


class PURisk(nn.Module):
    """A PU risk as a module without parameters: ``PURisk("nnpu", prior=0.3)(logits, s)``.

    The arguments are those of `pu_risk`, and are checked here, once. Of a batch only shapes and types are checked: NaN
    and infinity go through to the risk, as gradient scalers expect. A batch may have no labelled row, or only such.
    """

    def __init__(self, name: str, *, prior: float, **options: Any) -> None:
        super().__init__()
        self.name, self.given = name, {"prior": prior, **options}
        self.risk = _with_options("PURisk", name, prior, options)

    def forward(self, logits: Tensor, s: Any) -> Tensor:
        """The risk of a batch, a scalar, from logits and PU labels, each (n,) or (n, 1)."""
        return _of_batch("PURisk", self.risk, logits, s)

    def extra_repr(self) -> str:
        """The name and the options, as they were given."""
        return ", ".join([repr(self.name), *(f"{key}={value!r}" for key, value in self.given.items())])


def _with_options(owner: str, name: str, prior: float, options: Mapping[str, Any]) -> Risk:
    """The risk with its options set; on an empty batch it refuses those that are wrong."""
    with signed_by(owner):
        entry = get("risks", name)
        check_options(entry, options)
        risk: Risk = partial(entry.function, prior=prior, **options)
        risk(torch.zeros(0), torch.zeros(0, dtype=torch.bool))
    return risk


def _of_batch(owner: str, risk: Risk, logits: Tensor, s: Any, *, finite: bool = False) -> Tensor:
    """The risk of logits and labels that are vectors, or columns of width 1."""
    vector = logits.flatten() if logits.ndim == 2 and logits.shape[1] == 1 else logits
    if vector.ndim != 1 or not vector.is_floating_point():
        allowed = "a floating-point tensor (n,) or (n, 1); of two columns, logits[:, 1] − logits[:, 0]"
        got = Described(f"{logits.dtype} of shape {tuple(logits.shape)}")
        raise bad_argument(owner, "logits", allowed, got)
    if finite and not torch.compiler.is_compiling():
        check_finite(owner, "logits", vector)
    # The compiler of torch 2.4 cannot ask a tensor with getattr.
    shape: tuple[int, ...] = s.shape if isinstance(s, Tensor) else getattr(s, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        s = s.reshape(-1)
    return risk(vector, batch_labels(s, n_rows=len(vector), owner=owner).to(vector.device))


@dataclass(frozen=True)
class PartialRisks:
    """The two parts of a PU risk.

        A = π_X R_P⁺,    B = R_X⁻ − π_X R_P⁻

    where R_P⁺ and R_P⁻ are the mean losses of the labelled rows taken for positive and for negative, R_X⁻ that of the
    rows which stand for the population, taken for negative, and π_X is the share of positives among those. B estimates
    the risk of the negatives; it can be below 0 only by chance or by overfitting.

    In the case-control setting the population is that of U: R_X⁻ = R_U⁻ and π_X = π. In the single-set setting it is
    P ∪ U, of which P was a part, so that U has fewer positives than the population (internal label shift):

        R_X⁻ = c R_P⁻ + (1 − c) R_U⁻,    π_X = c + (1 − c) π,    c = n_P / (n_P + n_U)

    so that A + B = c R_P⁺ + (1 − c) (π R_P⁺ + R_U⁻ − π R_P⁻). c is `labelled_share`, or that of the batch, which must
    then be drawn from all rows alike.

    A mean over no rows is 0, so batches without labelled or without unlabelled rows are legal.

    Attributes:
        positive: A, a scalar.
        negative: B, a scalar.
    """

    positive: Tensor
    negative: Tensor

    @classmethod
    def of(
        cls,
        owner: str,
        logits: Tensor,
        labelled: Tensor,
        *,
        prior: float,
        loss: MarginLoss,
        setting: Setting,
        labelled_share: float | None = None,
    ) -> "PartialRisks":
        """Both parts of a batch, in float32 at least; the host never waits for the device."""
        _check_batch(owner, logits, labelled)
        if setting not in SETTINGS:
            raise unknown_name(f"setting of {owner}", setting, SETTINGS)
        check_share(owner, "prior", prior)
        if labelled_share is not None:
            check_share(owner, "labelled_share", labelled_share)
        function = margin_loss(loss)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        c: float | Tensor = 0.0
        if setting == "single-set":
            c = labelled.sum() / max(len(labelled), 1) if labelled_share is None else labelled_share
        share = c + (1 - c) * prior
        p_as_negative, u_as_negative = (mean_over(function(-wide), rows) for rows in (labelled, ~labelled))
        population = c * p_as_negative + (1 - c) * u_as_negative
        return cls(share * mean_over(function(wide), labelled), population - share * p_as_negative)


def mean_over(values: Tensor, members: Tensor) -> Tensor:
    """The mean over the marked rows, 0 when there are none."""
    return (values * members).sum() / members.sum().clamp(min=1)


def _check_batch(owner: str, logits: Tensor, labelled: Tensor) -> None:
    if logits.ndim != 1 or not logits.is_floating_point():
        got = Described(f"{logits.dtype} of shape {tuple(logits.shape)}")
        raise bad_argument(owner, "logits", "a floating-point vector (n,)", got)
    if labelled.dtype != torch.bool or labelled.shape != logits.shape:
        got = Described(f"{labelled.dtype} of shape {tuple(labelled.shape)}")
        raise bad_argument(owner, "labelled", f"a bool vector of length {len(logits)}, one per logit", got)
