"""Linear heads that minimise a PU risk, uPU and nnPU: they need π but no pseudo-labels."""

from collections.abc import Callable

from torch import Tensor

from pucl.errors import check_share
from pucl.heads import LinearHead
from pucl.heads.descent import fit_linear
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register
from pucl.risks.margins import MarginLoss
from pucl.risks.nnpu import nnpu as nnpu_risk
from pucl.risks.upu import upu as upu_risk


@register("heads", reference="eq:nnPU; Kiryo et al. 2017")
def nnpu(
    z: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    *,
    prior: float | None = None,
    loss: MarginLoss = "sigmoid",
    steps: int = 200,
    learning_rate: float = 0.1,
    l2: float = 1e-3,
) -> LinearHead:
    """The non-negative PU risk of P and U; of the pseudo-labels only π and confirmed negatives are used.

        min_{w, b}  π R_P⁺ + max(0, R_U⁻ − π R_P⁻) + (l2 / 2) ‖w‖²

    where the risks are those of the logits w · z + b, see `pucl.risks.nnpu`, over all rows at every step, with the
    steps back of its authors. The decision is at a logit of 0.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels, for their prior.
        prior: π, that of the pseudo-labels when not given.
        loss: a margin loss that has a gradient.
        steps: of full-batch Adam.
        learning_rate: at the start.
        l2: strength of the ridge; the intercept is free.
    """
    owner = "head 'nnpu'"
    risk = _risk(owner, nnpu_risk, labelled, pseudo, prior, loss)
    return fit_linear(owner, z, risk, steps=steps, learning_rate=learning_rate, l2=l2)


@register("heads", reference="eq:uPU; du Plessis et al. 2015")
def upu(
    z: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    *,
    prior: float | None = None,
    loss: MarginLoss = "sigmoid",
    steps: int = 200,
    learning_rate: float = 0.1,
    l2: float = 1e-3,
) -> LinearHead:
    """The unbiased PU risk of P and U; of the pseudo-labels only π and the confirmed negatives are used.

        min_{w, b}  π R_P⁺ + R_U⁻ − π R_P⁻ + (l2 / 2) ‖w‖²

    where the risks are those of the logits w · z + b, see `pucl.risks.upu`, over all rows at every step. The decision
    is at a logit of 0. With the logistic loss the problem is convex. The arguments are those of `nnpu`.
    """
    owner = "head 'upu'"
    risk = _risk(owner, upu_risk, labelled, pseudo, prior, loss)
    return fit_linear(owner, z, risk, steps=steps, learning_rate=learning_rate, l2=l2)


def _risk(
    owner: str,
    risk: Callable[..., Tensor],
    labelled: Tensor,
    pseudo: PseudoLabels,
    prior: float | None,
    loss: MarginLoss,
) -> Callable[[Tensor], Tensor]:
    """The risk as a function of the logits of all rows.

        π' = π n_U / (n_U + n_N)

    is the share of positives among all rows that are not labelled, of which n_N are confirmed negatives.
    """
    share = check_share(owner, "prior", pseudo.prior if prior is None else prior)
    free = int(pseudo.unlabelled(labelled).sum()) / max(int((~labelled).sum()), 1)
    return lambda logits: risk(logits, labelled, prior=share * free, loss=loss)
