"""CVIR on an embedding: tell P from U, estimate π from the scores, drop the likely positives from U, refit."""

import torch.nn.functional as F
from torch import Tensor

from pucl.errors import Described, bad_argument, check_count, check_positive
from pucl.logistic import CrossFit
from pucl.priors.bbe import bbe
from pucl.pseudo_labels import PseudoLabels, cut
from pucl.registry import register


@register("pseudo-labellers", reference="Garg et al. 2021 (TEDⁿ: CVIR with BBE)")
def cvir(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    seed: int = 0,
    rounds: int = 10,
    folds: int = 5,
    l2: float = 0.1,
    most: int = 20_000,
) -> PseudoLabels:
    """Conditional value ignoring risk with a linear score; needs no prior and no single-cluster classes.

    1. Score P against U by logistic regression. 2. Estimate π by BBE on the scores, unless `prior` is given.
    3. Take the π̂ n_U highest-scoring rows of U for positives, score P against the rest of U, and go back to 2,
    `rounds` times. The last cut is where the probability crosses one half: a share π̂ of U is labelled positive.
    Every score is out of fold, so that labelled rows are judged as unlabelled ones are.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        seed: of the folds.
        rounds: how often likely positives are dropped and the score refitted.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        l2: ridge of the logistic regressions, on L2-normalised embeddings scaled to unit mean square per feature.
        most: how many unlabelled rows the regressions are fitted to; all are scored.
    """
    check_count("cvir", "rounds", rounds)
    check_count("cvir", "folds", folds, low=2)
    check_positive("cvir", "l2", l2)
    check_count("cvir", "most", most, low=2)
    unlabelled = ~labelled
    smaller = min(int(labelled.sum()), int(unlabelled.sum()))
    if smaller < 2:
        counts = Described(f"{int(labelled.sum())} labelled and {int(unlabelled.sum())} unlabelled")
        raise bad_argument("cvir", "s", "labels with at least two rows of each kind, to hold one out", counts)
    rows = F.normalize(z, dim=1) * z.shape[1] ** 0.5
    fit = CrossFit(rows, labelled, folds=min(folds, smaller), seed=seed, l2=l2, most=most)
    score = fit.scores()
    for _ in range(rounds):
        share = _prior(score, labelled) if prior is None else prior
        score = fit.scores(labelled | (score < cut(score[unlabelled], share)))
    share = _prior(score, labelled) if prior is None else prior
    return PseudoLabels.from_scores(score, labelled, prior=share)


def _prior(score: Tensor, labelled: Tensor) -> float:
    return bbe(score[labelled].cpu().numpy(), score[~labelled].cpu().numpy()).value
