"""CVIR with a kernel: the score may bend around classes of many modes."""

from torch import Tensor

from pucl.errors import check_count, check_positive
from pucl.numerics.threads import threads_for
from pucl.ranking import Ranking
from pucl.ranking.cvir import ROUNDS, cross_fitted_rounds
from pucl.ranking.draws import Draw, draw_seeds, ranking_of
from pucl.ranking.kernel_features import LANDMARKS, WIDTH, KernelFeatures
from pucl.ranking.rows import MAX_ROWS
from pucl.ranking.whitening import ranked_directions
from pucl.registry import register

OWNER = "kernel_cvir"
SPREAD = 20.0  # variance of the logits by default


@register("rankers", reference="ours; Garg et al. 2021, Williams and Seeger 2001")
def kernel_cvir(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    folds: int = 5,
    spread: float = SPREAD,
    width: float = WIDTH,
    landmarks: int = LANDMARKS,
    centred: bool = True,
    whitening: float | None = None,
    max_rows: int = MAX_ROWS,
    repeats: int | None = None,
) -> Ranking:
    """`cvir` with a Gaussian kernel on the sphere in place of the plain embedding, through landmarks.

        k(z, z') = exp((cos(z, z') − 1) / h),    φ(z) = Λ^(−1/2) Vᵀ k(z, L),    k(L, L) = V Λ Vᵀ

    where L are rows drawn at random and h is the width. A linear score of φ is a weighted sum of bumps on the
    embedding.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, as for `cvir`.
        seed: of the folds and the landmarks.
        rounds: how often likely positives are dropped and the score refitted.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        spread: variance of the logits before any row is seen; a smaller one is a stronger ridge.
        width: h; a larger one is nearer to `cvir`.
        landmarks: how many; all rows when there are fewer.
        centred: whether cosines are between directions from the mean row, not from the origin: held-out positives
            prefer it on hard embeddings and do not mind on others (LOG.md).
        whitening: how far the principal axes are made alike before directions are taken, from 0, not at all, to 1,
            equal variance; for `centred` only. When not given, 0.5 from 250 labelled rows on and 0 below: held-out
            positives prefer it (LOG.md).
        max_rows: how many labelled and how many unlabelled rows the regressions are fitted to; all are scored.
        repeats: draws of folds and landmarks whose scores and π̂ are averaged; steadier where labels are few. When not
            given, 5 up to 2,000 rows, 3 up to 5,000 and 1 beyond.
    """
    check_positive(OWNER, "width", width)
    check_count(OWNER, "landmarks", landmarks)
    with threads_for(len(z) * max(landmarks, z.shape[1])):
        rows = ranked_directions(OWNER, z, labelled, centred=centred, whitening=whitening)
        draws = [
            kernel_draw(
                OWNER, rows, labelled, prior=prior, seed=number, rounds=rounds, folds=folds, spread=spread, width=width,
                landmarks=landmarks, max_rows=max_rows, negative=negative,
            )
            for number in draw_seeds(OWNER, len(z), seed, repeats)
        ]  # fmt: skip
    return ranking_of(OWNER, draws, labelled, prior, negative)


def kernel_draw(
    owner: str,
    rows: Tensor,
    labelled: Tensor,
    *,
    prior: float | None,
    seed: int,
    rounds: int = ROUNDS,
    folds: int = 5,
    spread: float = SPREAD,
    width: float = WIDTH,
    landmarks: int = LANDMARKS,
    max_rows: int = MAX_ROWS,
    negative: Tensor | None = None,
) -> Draw:
    """One draw of `kernel_cvir` on directions (n, k): CVIR's rounds on the features of landmarks drawn with `seed`."""
    features = KernelFeatures(rows, width=width, landmarks=landmarks, seed=seed)
    return cross_fitted_rounds(
        owner, rows, labelled, features,
        prior=prior, seed=seed, rounds=rounds, folds=folds, spread=spread, max_rows=max_rows, negative=negative,
    )  # fmt: skip
