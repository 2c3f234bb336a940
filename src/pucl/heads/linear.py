"""Linear cross-entropy head on the pseudo-labels."""

import torch
from torch import Tensor

from pucl.heads import LinearHead
from pucl.heads.scaling import Scaling
from pucl.logistic import fit_logistic
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register


@register("heads", reference="sec:puPL")
def linear(
    z: Tensor, labelled: Tensor, pseudo: PseudoLabels, *, l2: float = 1e-3, soft: bool = True, weighted: bool = False
) -> LinearHead:
    """Cross-entropy on what the labeller says, a probability or a label.

        min_w  Σ_i CE(σ(w · z_i + b), p_i)        soft: p is the probability; a doubtful row pulls both ways
        min_w  Σ_i r_i · CE(σ(w · z_i + b), ỹ_i)  hard and weighted: ỹ is the pseudo-label and r its reliability

    Labelled rows count like any other positive, so the share of positives the head sees is that of the pseudo-labels.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels.
        l2: strength of the ridge, on embeddings of unit variance, see `Scaling`.
        soft: take probabilities for targets; held-out positives prefer it to weighted labels on nearly every embedding
            of our study (LOG.md).
        weighted: whether reliability counts; all rows alike otherwise.
    """
    del labelled
    weight = pseudo.reliability if weighted else torch.ones_like(pseudo.reliability)
    scaling = Scaling.of(z)
    layer = fit_logistic(scaling(z), pseudo.probability if soft else pseudo.labels, weight, l2=l2)
    return scaling.head(layer.weight[0], layer.bias[0])
