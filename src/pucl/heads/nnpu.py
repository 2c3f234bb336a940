"""Linear head that minimises the non-negative PU risk; it needs π but no pseudo-labels."""

from torch import Tensor

from pucl.errors import check_share
from pucl.heads import LinearHead
from pucl.heads.descent import fit_linear
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register
from pucl.risks.margins import MarginLoss
from pucl.risks.nnpu import nnpu as nnpu_risk

OWNER = "head 'nnpu'"


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
    """The non-negative PU risk of P and U; of the pseudo-labels only π is used.

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
    share = check_share(OWNER, "prior", pseudo.prior if prior is None else prior)

    def risk(logits: Tensor) -> Tensor:
        return nnpu_risk(logits, labelled, prior=share, loss=loss)

    return fit_linear(OWNER, z, risk, steps=steps, learning_rate=learning_rate, l2=l2)
