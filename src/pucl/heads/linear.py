"""Linear cross-entropy head on the pseudo-labels."""

import torch
from torch import Tensor

from pucl.heads import LinearHead
from pucl.logistic import fit_logistic
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register


@register("heads", reference="sec:puPL")
def linear(z: Tensor, labelled: Tensor, pseudo: PseudoLabels, *, l2: float = 1e-3, weighted: bool = True) -> LinearHead:
    """Cross-entropy on the pseudo-labels, each row weighted by its reliability.

        min_w  Σ_i r_i · CE(σ(w · z_i + b), ỹ_i)

    where ỹ is the pseudo-label and r its reliability. Labelled rows count like any other positive, so the share of
    positives the head sees is that of the pseudo-labels.
    """
    del labelled
    weight = pseudo.reliability if weighted else torch.ones_like(pseudo.reliability)
    scale = z.shape[1] ** 0.5  # unit mean square per feature, so that l2 means the same for every width
    layer = fit_logistic(z * scale, pseudo.labels, weight, l2=l2)
    return LinearHead(layer.weight[0] * scale, layer.bias[0])
