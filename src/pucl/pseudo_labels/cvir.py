"""CVIR on an embedding with a linear score."""

import torch.nn.functional as F
from torch import Tensor

from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.cvir import MOST, ROUNDS, Found, averaged, play
from pucl.registry import register

OWNER = "cvir"


@register("pseudo-labellers", reference="Garg et al. 2021 (TEDⁿ: CVIR with BBE)")
def cvir(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    folds: int = 5,
    spread: float = 50.0,
    most: int = MOST,
    repeats: int | None = None,
) -> PseudoLabels:
    """Conditional value ignoring risk with a linear score; needs no prior and no single-cluster classes.

    1. Score P against U by logistic regression. 2. Estimate π by BBE on the scores, unless `prior` is given.
    3. Take the π̂ n_U highest-scoring rows of U for positives, score P against the rest of U, and go back to 2,
    `rounds` times. The last cut is where the probability crosses one half: a share π̂ of U is labelled positive.
    Every score is out of fold, so that labelled rows are judged as unlabelled ones are; see
    `pucl.ranking.cvir`.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        seed: of the folds.
        rounds: how often likely positives are dropped and the score refitted.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        spread: variance of the logits before any row is seen; a smaller one is a stronger ridge.
        most: how many labelled and how many unlabelled rows the regressions are fitted to; all are scored.
        repeats: draws of the folds whose scores and π̂ are averaged; steadier where labels are few. When not
            given, 5 up to 2,000 rows, 3 up to 5,000 and 1 beyond.
    """
    rows = F.normalize(z, dim=1)

    def draw(number: int) -> Found:
        return play(
            OWNER, rows, labelled, lambda x: x,
            prior=prior, seed=number, rounds=rounds, folds=folds, spread=spread, most=most,
        )  # fmt: skip

    found = averaged(OWNER, draw, labelled, seed, repeats)
    return PseudoLabels.from_scores(found.score, labelled, prior=found.prior)
