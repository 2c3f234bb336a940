"""The kernel's score and that of random walks, weighed against each other, on one embedding or on several."""

from collections.abc import Sequence

from torch import Tensor

from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.cvir import MOST, Found, averaged
from pucl.ranking.kernel import viewed
from pucl.ranking.stacking import kernel_and_walks
from pucl.registry import register

OWNER = "stacked"


@register("pseudo-labellers", reference="ours; Wolpert 1992")
def stacked(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    beside: Sequence[Tensor] | None = None,
    seed: int = 0,
    folds: int = 5,
    centred: bool = True,
    even: float | None = None,
    most: int = MOST,
    repeats: int | None = None,
) -> PseudoLabels:
    """`kernel_cvir` and `walks` together: held-out scores say how much each of them has to say.

        f = w_1 f_kernel + w_2 f_walks + b,    w ≥ 0

    a logistic regression of P against likely negatives on both scores of every row, each from models that never saw it.
    The kernel sees the large shape of the classes, walks the small clusters in them. With other embeddings `beside`
    there are two more scores for each of these: what the views of an encoder made it forget, the raw rows still show.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        beside: other embeddings of the same rows, (n, k') each.
        seed: of folds, landmarks and rows that are fitted to.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        centred: as for `kernel_cvir`.
        even: as for `kernel_cvir`.
        most: how many labelled and how many unlabelled rows are fitted to; all are scored.
        repeats: draws whose scores and π̂ are averaged, as for `kernel_cvir`.
    """
    seen = [viewed(OWNER, one, labelled, centred=centred, even=even) for one in (z, *(beside or ()))]

    def draw(number: int) -> Found:
        return kernel_and_walks(OWNER, seen, labelled, prior=prior, seed=number, folds=folds, most=most)

    found = averaged(OWNER, draw, labelled, seed, repeats)
    return PseudoLabels.from_scores(found.score, labelled, prior=found.prior)
