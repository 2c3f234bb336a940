"""Prototypes: how much more often P than U falls into a cluster, averaged over many clusterings."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import Described, bad_argument, check_count
from pucl.numerics.kmeans import kmeans
from pucl.pseudo_labels.outcome import PseudoLabels
from pucl.ranking.rows import unlabelled_rows
from pucl.ranking.share import share_of, with_interval
from pucl.ranking.thresholds import move_to_gap
from pucl.registry import register

OWNER = "prototypes"
FEWEST = 5  # unlabelled rows per cluster, on average


@register("pseudo-labellers", reference="ours")
def prototypes(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    negative: Tensor | None = None,
    seed: int = 0,
    clusters: Sequence[int] = (25, 50, 100, 200),
    repeats: int = 2,
    max_iter: int = 15,
) -> PseudoLabels:
    """The ratio p(z | P) / p(z | U) through clusters of different sizes.

        f_i = mean over clusterings of  log (p_c + 1) / (n_P + K) − log (u_c + 1) / (n_U + K),    c the cluster of i

    where p_c and u_c count the labelled and unlabelled rows of the cluster *other than i*: labelled rows attract each
    other in a contrastive embedding, and a row must not vouch for itself. π is BBE's on f when not given, moved to a
    gap as in `cvir`, and a share π of U is labelled positive.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        negative: confirmed negatives, (n,) bool; they count among the u_c, but not among the rows that π is a share of.
        seed: of the clusterings.
        clusters: their numbers K. Those above a fifth of n_U are left out; where none is left, a fifth of n_U is taken.
        repeats: clusterings for each K.
        max_iter: most Lloyd iterations.
    """
    check_count(OWNER, "repeats", repeats)
    if not clusters:
        raise bad_argument(OWNER, "clusters", "at least one number of clusters", Described("none"))
    for k in clusters:
        check_count(OWNER, "clusters", k, low=2)
    free = unlabelled_rows(labelled, negative)
    n_p, n_u = int(labelled.sum()), int(free.sum())
    if n_p < 2 or n_u < 2 * FEWEST:
        got = Described(f"{n_p} labelled and {n_u} unlabelled")
        raise bad_argument(OWNER, "s", f"labels with at least 2 labelled and {2 * FEWEST} unlabelled rows", got)
    sizes = [k for k in clusters if FEWEST * k <= n_u] or [n_u // FEWEST]
    rows, generator = F.normalize(z, dim=1), Generator().manual_seed(seed)
    ratios = [
        log_ratio(kmeans(rows, k, generator=generator, max_iter=max_iter).labels, labelled, k)
        for k in sizes
        for _ in range(repeats)
    ]
    score = torch.stack(ratios).mean(0)
    if prior is not None:
        return PseudoLabels.from_scores(score, labelled, prior=prior, interval=(prior, prior), negative=negative)
    share = move_to_gap(score[free], score[labelled], share_of(score, labelled, negative))
    estimate = with_interval(OWNER, share, score, labelled, negative=negative)
    interval = (estimate.low, estimate.high)
    return PseudoLabels.from_scores(score, labelled, prior=share, interval=interval, negative=negative)


def log_ratio(cluster: Tensor, labelled: Tensor, k: int) -> Tensor:
    """The log ratio of a clustering into `k`, (n,), no row counting itself."""
    total = []
    for kind in (labelled, ~labelled):
        others = torch.bincount(cluster[kind], minlength=k)[cluster] - kind.long()
        total.append(((others + 1) / (int(kind.sum()) + k)).log())
    return total[0] - total[1]
