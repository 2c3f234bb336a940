"""Random walks on an embedding: rows of one small cluster speak for each other."""

from torch import Tensor

from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.cvir import MOST, Found, averaged
from pucl.ranking.kernel import viewed
from pucl.ranking.label_spreading import NEIGHBOURS, ON, TEMPERATURE, TURNS, wander
from pucl.registry import register

OWNER = "walks"


@register("pseudo-labellers", reference="ours; Zhou et al. 2004, Garg et al. 2021")
def walks(
    z: Tensor,
    labelled: Tensor,
    *,
    prior: float | None = None,
    seed: int = 0,
    rounds: int = TURNS,
    folds: int = 5,
    neighbours: int = NEIGHBOURS,
    temperature: float = TEMPERATURE,
    on: float = ON,
    centred: bool = True,
    even: float | None = None,
    most: int = MOST,
    repeats: int | None = None,
) -> PseudoLabels:
    """Random walks among nearest rows that meet labelled rows rather than likely negatives.

        T = D⁻¹ (K + Kᵀ),    K_ij = exp(cos(z_i, z_j) / τ) / Σ_l exp(cos(z_i, z_l) / τ)

        a = (1 − α) Σ_t αᵗ Tᵗ 1_P / n_P,    b = (1 − α) Σ_t αᵗ Tᵗ 1_N / n_N,    f = log a − log b

    where j and l run over the nearest rows of i, D makes chances of T, and N is U without its likely positives. No row
    meets the labels of its own fold. For data that are many small clusters, such as all pictures of a person or of a
    product, which no kernel of one width can follow.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        prior: π; estimated when not given.
        seed: of the folds and of the rows that walks go through.
        rounds: how often likely positives are dropped from N; with 0, N is U.
        folds: how many folds the scores are made with; fewer when P or U is smaller.
        neighbours: how many rows each row chooses; all others when there are fewer.
        temperature: τ; a smaller one prefers the nearest.
        on: α, the chance of another step.
        centred: as for `kernel_cvir`.
        even: as for `kernel_cvir`.
        most: how many labelled and how many unlabelled rows walks go through; all are scored.
        repeats: draws of folds whose scores and π̂ are averaged, as for `kernel_cvir`.
    """
    rows = viewed(OWNER, z, labelled, centred=centred, even=even)

    def draw(number: int) -> Found:
        return wander(
            OWNER, rows, labelled, prior=prior, seed=number, rounds=rounds, folds=folds, neighbours=neighbours,
            temperature=temperature, on=on, most=most,
        )  # fmt: skip

    found = averaged(OWNER, draw, labelled, seed, repeats)
    return PseudoLabels.from_scores(found.score, labelled, prior=found.prior)
