"""Linear cross-entropy head on the pseudo-labels."""

import torch
from torch import Tensor

from pucl.errors import check_positive
from pucl.heads import LinearHead
from pucl.heads.scaling import Scaling
from pucl.numerics.logistic import fit_logistic
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.thresholds import threshold_for_share
from pucl.registry import register

ASTRAY = 0.1  # by how much the share of U above the border may differ from π


@register("heads", reference="sec:puPL")
def linear(
    z: Tensor, labelled: Tensor, pseudo: PseudoLabels, *, l2: float = 1e-3, soft: bool = True, weighted: bool = False
) -> LinearHead:
    """Logistic regression on the probabilities or the labels of the labeller.

        min_w  Σ_i CE(σ(w · z_i + b), p_i)        soft: p is the probability; a doubtful row pulls both ways
        min_w  Σ_i r_i · CE(σ(w · z_i + b), ỹ_i)  hard and weighted: ỹ is the pseudo-label and r its reliability

    Labelled rows count like any other positive, so the share of positives the head sees is that of the pseudo-labels.
    On an embedding of few dimensions no plane may have the shape of the probabilities, and its border lies far from
    where they cross one half: if the share of U on its positive side differs from the π of the labeller by more than
    0.1, it is moved to agree. Labels without doubt, or taken as such, leave it where cross-entropy puts it: classes
    that overlap then have fewer rows there than π.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels.
        l2: strength of the ridge, on embeddings of unit variance, see `Scaling`.
        soft: take probabilities as targets. On nearly every embedding of our study, held-out positives scored better
            than with weighted labels (LOG.md).
        weighted: weight rows by their reliability; otherwise all rows count alike.
    """
    check_positive("head 'linear'", "l2", l2)
    weight = pseudo.reliability if weighted else torch.ones_like(pseudo.reliability)
    scaling = Scaling.of(z)
    rows = scaling(z)
    layer = fit_logistic(rows, pseudo.probability if soft else pseudo.labels, weight, l2=l2)
    unlabelled = pseudo.unlabelled(labelled)
    doubt = soft and bool((pseudo.reliability[unlabelled] < 1).any())
    border = _border(layer(rows)[unlabelled, 0], pseudo.prior) if doubt else 0.0
    return scaling.head(layer.weight[0], layer.bias[0] - border)


@torch.no_grad()
def _border(logits: Tensor, prior: float) -> Tensor | float:
    """The decision threshold of the logits of U: 0, or the one above which a share π lies."""

    def off(border: Tensor | float) -> float:
        return abs(float((logits > border).float().mean()) - prior)

    moved = threshold_for_share(logits, prior) if off(0.0) > ASTRAY else 0.0
    return moved if off(moved) < off(0.0) else 0.0
