"""What an embedding and its labels look like before any classifier: clusters, agreement, and how P was labelled."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.encoders.inputs import Standardise
from pucl.errors import Described, bad_argument, check_count, signed_by
from pucl.labels import check_labels, check_negatives
from pucl.numerics.auc import auc, null_error, spearman, weighted_auc
from pucl.numerics.floats import as_tensor, check_finite, in_range
from pucl.numerics.kmeans import kmeans
from pucl.numerics.logistic import fit_logistic, stratified_folds
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels
from pucl.selection.limits import Limits, geometry_of, limits

OWNER = "pucl.diagnose"
MOST_CLUSTERS = 100
PER_CLUSTER = 10  # labelled rows per cluster, on average, at least; fewer rows make fewer clusters
MOST_ROWS = 20_000  # of U in the test of how P was labelled; more add nothing
SIGNIFICANT = 3.0  # standard errors
EFFECT = 0.08  # AUC above chance that is worth a warning
SAME_ROWS = 0.3  # Cohen's kappa from which clusters confirm pseudo-labels
GATHERED = 0.8  # share of held-out positives in rich clusters below which these mix the classes too much
FOLDS = 5
RIDGE = 0.1


@dataclass(frozen=True)
class Diagnostics:
    """Figures of `diagnose`, and one line of text for each finding.

    Attributes:
        n_clusters: K of the K-means.
        ratio_auc: chance that a held-out labelled positive lies in a richer cluster than an unlabelled row.
        ratio_spearman: rank correlation of the cluster ratio with being a held-out labelled positive.
        rich_positive: share of the held-out positives in rich clusters (r ≥ 1).
        rich_unlabelled: share of U in them; divided by `rich_positive`, a bound on π from above under SCAR.
        agreement: share of U on which the two labellers agree; None without two.
        kappa: Cohen's kappa of the two on U; None without two.
        bias_auc: out-of-fold AUC of P against the likely positives of U; 0.5 if they look the same.
        bias_error: its standard error if they look the same.
        biased: whether P looks unlike a random sample of the positives (a SAR warning).
        messages: the findings in words.
        limits: what theory says of these rows; None unless π was given. Its messages are among `messages`.
    """

    n_clusters: int
    ratio_auc: float
    ratio_spearman: float
    rich_positive: float
    rich_unlabelled: float
    agreement: float | None
    kappa: float | None
    bias_auc: float
    bias_error: float
    biased: bool
    messages: tuple[str, ...]
    limits: Limits | None = None

    def __str__(self) -> str:
        return "\n".join(self.messages)


@signed_by(OWNER)
def diagnose(
    z: Any,
    s: Any,
    *,
    pseudo: PseudoLabels | None = None,
    other: PseudoLabels | None = None,
    seed: int = 0,
    negatives: Any = None,
    prior: PriorEstimate | float | None = None,
) -> Diagnostics:
    """Look at an embedding through its labelled positives, without negatives.

        r_c = (|A ∩ c| / |A|) / ((|U ∩ c| + 1) / (n_U + K))

    where A and B are random halves of P, c the clusters of a K-means on all rows and r_c a cluster's ratio: above 1 it
    is richer in positives than U is. B was not used for r, so it tells whether the clusters gather positives.

    Whether P is a random sample of the positives (SCAR) is tested by separating P from the likely positives of U: the
    rows that `pseudo` labels positive, weighted by their probability, or, without `pseudo`, B from U within the rich
    clusters (r ≥ 1). The out-of-fold AUC of a logistic regression is 1/2 under SCAR if the likely positives are
    positives, and at most ε/2 more if a share ε of them is not. A warning needs

        AUC − 1/2 − ε/2 > max(EFFECT, SIGNIFICANT · se₀)

    where ε is the doubt of the labeller itself, the mean of 1 − probability over what it labels positive (0 without
    `pseudo`). There is no verdict if the clusters do not confirm the likely positives: kappa of `pseudo` with
    membership in a rich cluster is below SAME_ROWS or, without `pseudo`, rich clusters hold less than GATHERED of B.
    The absence of a warning proves nothing: a labeller that learnt from a biased P finds rows like P. Pseudo-labels
    made with a known π, or not made from P, show more.

    Args:
        z: embeddings (n, d), finite.
        s: PU labels (n,), at least four of each kind.
        pseudo: pseudo-labels of the rows.
        other: pseudo-labels by another labeller, to compare with `pseudo`.
        seed: of the halves, the clusters and the folds.
        negatives: confirmed negatives, a mask (n,) or row numbers, which are left out.
        prior: π with its interval, a bound on it, or a number. With it `limits` follows; the geometry in it is that of
            rows scaled to length 1. ``pucl diagnose`` and `Model.diagnose` show the same of a model.
    """
    check_count(OWNER, "seed", seed, low=0)
    rows, labelled, pseudo, other = _check(z, s, pseudo, other, negatives)
    generator = Generator().manual_seed(seed)
    half = _second_half(labelled, generator)
    k = max(2, min(MOST_CLUSTERS, int(labelled.sum()) // PER_CLUSTER))
    ratio = _cluster_ratio(rows, labelled, half, k, generator)
    held, free = _numpy(ratio[half]), _numpy(ratio[~labelled])
    value, _ = auc(held, free)
    correlation = spearman(np.concatenate([held, free]), np.repeat([1.0, 0.0], [len(held), len(free)]))
    rich_p, rich_u = float((held >= 1).mean()), float((free >= 1).mean())
    agreement, kappa = (None, None) if pseudo is None or other is None else _agreement(pseudo, other, labelled)
    bias_auc, error, doubt, conclusive = _bias(rows, labelled, half, ratio >= 1, pseudo, seed)
    allowed = 0.5 + doubt / 2 + max(EFFECT, SIGNIFICANT * error)
    biased = conclusive and bias_auc > allowed
    known = None if prior is None else _limits(rows, labelled, pseudo, prior)
    of_clusters = _about_ratio(value, null_error(len(held), len(free))), _about_rich(rich_p, rich_u)
    of_labels = _about_bias(bias_auc, allowed, biased=biased, conclusive=conclusive)
    of_theory = () if known is None else known.messages
    said = (*of_clusters, *_about_agreement(agreement, kappa), of_labels, *of_theory)
    return Diagnostics(k, value, correlation, rich_p, rich_u, agreement, kappa, bias_auc, error, biased, said, known)


def _limits(rows: Tensor, labelled: Tensor, pseudo: PseudoLabels | None, prior: PriorEstimate | float) -> Limits:
    """What theory says of the rows; those that `pseudo` labels negative stand for the negatives."""
    negative = None if pseudo is None else ~labelled & ~pseudo.labels.to(rows.device)
    geometry = geometry_of(F.normalize(rows, dim=1), labelled, negative)
    return limits(int(labelled.sum()), int((~labelled).sum()), prior=prior, geometry=geometry)


def memorised(z: Tensor, seen_by_encoder: Tensor, hidden: Tensor, *, seed: int = 0) -> tuple[float, bool]:
    """Whether an encoder draws the labelled rows it was trained with apart from labelled rows hidden from it.

    By the out-of-fold AUC of a logistic regression of one against the other, 1/2 where nothing was memorised; the
    answer is yes where it is above that by EFFECT and by SIGNIFICANT standard errors.

    Args:
        z: embeddings (n, d).
        seen_by_encoder: the labelled rows the encoder was trained with, (n,) bool.
        hidden: the other labelled rows, (n,) bool.
        seed: of the folds.
    """
    smaller = min(int(seen_by_encoder.sum()), int(hidden.sum()))
    if smaller < FOLDS:
        return 0.5, False
    use = seen_by_encoder | hidden
    weight = torch.ones(int(use.sum()), dtype=torch.float64)
    value, error = _separability(z[use].float(), seen_by_encoder[use], weight, FOLDS, seed)
    return value, value - 0.5 > max(EFFECT, SIGNIFICANT * error)


def _check(
    z: Any, s: Any, pseudo: PseudoLabels | None, other: PseudoLabels | None, negatives: Any
) -> tuple[Tensor, Tensor, PseudoLabels | None, PseudoLabels | None]:
    """The rows and their labels, checked, without confirmed negatives."""
    rows = as_tensor(z)
    if rows.ndim != 2 or not rows.is_floating_point():
        got = Described(f"{rows.dtype} of shape {tuple(rows.shape)}")
        raise bad_argument(OWNER, "z", "a floating-point matrix (n, d)", got)
    check_finite(OWNER, "z", rows)
    s = check_labels(s, n_rows=len(rows), owner=OWNER)
    for argument, labels in (("pseudo", pseudo), ("other", other)):
        if labels is not None and len(labels.labels) != len(rows):
            got = Described(f"pseudo-labels of {len(labels.labels)} rows")
            raise bad_argument(OWNER, argument, f"for the {len(rows)} rows of z", got)
    if other is not None and pseudo is None:
        raise bad_argument(OWNER, "other", "given together with pseudo", Described("other alone"))
    labelled, negative = torch.from_numpy(s).to(rows.device), check_negatives(negatives, s, len(rows), OWNER)
    if negative is not None:
        kept = torch.from_numpy(~negative)
        rows, labelled = rows[kept.to(rows.device)], labelled[kept.to(rows.device)]
        pseudo, other = (None if labels is None else labels.only(kept) for labels in (pseudo, other))
    counts = int(labelled.sum()), int((~labelled).sum())
    if min(counts) < 4:
        got = Described(f"{counts[0]} labelled and {counts[1]} unlabelled")
        raise bad_argument(OWNER, "s", "labels with at least four rows of each kind", got)
    return in_range(rows).to(torch.float32), labelled, pseudo, other


def _second_half(labelled: Tensor, generator: Generator) -> Tensor:
    """B, a random half of P, (n,) bool."""
    members = labelled.nonzero().flatten().cpu()
    half = torch.zeros(len(labelled), dtype=torch.bool)
    half[members[torch.randperm(len(members), generator=generator)[: len(members) // 2]]] = True
    return half.to(labelled.device)


def _cluster_ratio(rows: Tensor, labelled: Tensor, half: Tensor, k: int, generator: Generator) -> Tensor:
    """The ratio r of the cluster of every row, (n,)."""
    cluster = kmeans(rows, k, generator=generator).labels
    first, unlabelled = labelled & ~half, ~labelled
    of_p = torch.bincount(cluster[first], minlength=k) / first.sum()
    of_u = (torch.bincount(cluster[unlabelled], minlength=k) + 1) / (unlabelled.sum() + k)
    return (of_p / of_u)[cluster]


def _agreement(pseudo: PseudoLabels, other: PseudoLabels, labelled: Tensor) -> tuple[float, float]:
    unlabelled = ~labelled.cpu()
    return cohens_kappa(pseudo.labels.cpu()[unlabelled], other.labels.cpu()[unlabelled])


def cohens_kappa(a: Tensor, b: Tensor) -> tuple[float, float]:
    """The share of equal labels p_o and Cohen's kappa.

    κ = (p_o − p_e) / (1 − p_e), where p_e = p_a p_b + (1 − p_a)(1 − p_b) is what chance gives; 1 when p_e is.
    """
    same, p_a, p_b = (float(x.double().mean()) for x in (a == b, a, b))
    chance = p_a * p_b + (1 - p_a) * (1 - p_b)
    return same, (same - chance) / (1 - chance) if chance < 1 else 1.0


def _bias(
    rows: Tensor, labelled: Tensor, half: Tensor, rich: Tensor, pseudo: PseudoLabels | None, seed: int
) -> tuple[float, float, float, bool]:
    """AUC of P against the likely positives of U, its error under SCAR, the labeller's doubt, and whether it counts."""
    unlabelled = ~labelled
    if pseudo is None:
        positive, weight, doubt = half & rich, (rich & unlabelled).double(), 0.0
        conclusive = float(rich[half].double().mean()) >= GATHERED
    else:
        likely_positive = pseudo.labels.to(rows.device) & unlabelled
        positive, weight = labelled, pseudo.probability.to(rows.device, torch.float64) * likely_positive
        doubt = 1 - float(weight.square().sum() / weight.sum().clamp(min=1e-12)) if likely_positive.any() else 1.0
        conclusive = cohens_kappa(likely_positive[unlabelled], rich[unlabelled])[1] >= SAME_ROWS
    likely = at_most(weight > 0, MOST_ROWS, seed)
    smaller = min(int(positive.sum()), int(likely.sum()))
    if smaller < 2:
        return 0.5, float("inf"), doubt, False
    use = positive | likely
    value, error = _separability(rows[use], positive[use], weight[use], min(FOLDS, smaller), seed)
    return value, error, doubt, conclusive


def _separability(rows: Tensor, positive: Tensor, weight: Tensor, folds: int, seed: int) -> tuple[float, float]:
    """Mean over folds of the AUC on rows a logistic regression has not seen, and its error under the null.

    The error takes the weighted rows as (Σw)² / Σw² rows of weight 1.
    """
    rows = Standardise.of(rows)(rows)
    fold = stratified_folds(positive, folds, seed)
    goal = positive.double()
    values, variances = [], []
    for f in range(folds):
        train, test = fold != f, fold == f
        balanced = goal / goal[train].sum() + weight * (1 - goal) / weight[train & ~positive].sum()
        model = fit_logistic(rows[train], goal[train], balanced[train], l2=RIDGE)
        of_p, of_u = (_numpy(model(rows[test & kind]).squeeze(1)) for kind in (positive, ~positive))
        w = _numpy(weight[test & ~positive])
        values.append(weighted_auc(of_p, of_u, w))
        variances.append(null_error(len(of_p), w.sum() ** 2 / (w @ w)) ** 2)
    return float(np.mean(values)), float(np.sqrt(np.sum(variances)) / folds)


def at_most(rows: Tensor, most: int, seed: int) -> Tensor:
    """The rows marked, or a random choice of `most` of them, (n,) bool."""
    members = rows.nonzero().flatten().cpu()
    drawn = members[torch.randperm(len(members), generator=Generator().manual_seed(seed))[:most]]
    kept = torch.zeros(len(rows), dtype=torch.bool)
    kept[drawn] = True
    return kept.to(rows.device)


def _numpy(values: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return values.double().cpu().numpy()


def _about_ratio(value: float, error: float) -> str:
    if value - 0.5 > SIGNIFICANT * error:
        return (
            "The embedding groups the positives: held-out labelled positives lie in clusters rich in positives "
            f"(AUC {value:.2f}; chance is 0.50)."
        )
    return (
        f"Warning: the embedding does not group the positives (AUC {value:.2f}; chance is 0.50). "
        "Try another encoder, or train it for longer."
    )


def _about_rich(positive: float, unlabelled: float) -> str:
    return (
        f"Clusters rich in positives hold {positive:.0%} of the held-out labelled positives and {unlabelled:.0%} of "
        "the unlabelled rows."
    )


def _about_agreement(agreement: float | None, kappa: float | None) -> tuple[str, ...]:
    if agreement is None:
        return ()
    return (f"The two labellers agree on {agreement:.0%} of the unlabelled rows (kappa {kappa:.2f}).",)


def _about_bias(value: float, allowed: float, *, biased: bool, conclusive: bool) -> str:
    if biased:
        return (
            "Warning: labelling does not look random (SAR): labelled positives can be told apart from likely "
            f"unlabelled positives (AUC {value:.2f}; above {allowed:.2f} is a warning). Estimates of π are then too "
            "low; label some positives at random."
        )
    if not conclusive:
        return (
            "Whether labelling is random (SCAR) cannot be checked: the clusters do not confirm which unlabelled rows "
            "are positive."
        )
    return (
        "Labelling looks random (SCAR): labelled positives cannot be told apart from likely unlabelled positives "
        f"(AUC {value:.2f}; above {min(allowed, 1.0):.2f} would be a warning). This check can miss a bias."
    )
