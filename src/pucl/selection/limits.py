"""What the paper's theory says of a data set and its embedding, as far as nobody has to know a label of U for it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pucl.data.pu_split import kappa
from pucl.errors import check_share
from pucl.priors import PriorEstimate
from pucl.selection.scores import Estimate

Range = tuple[float, float]
TEMPERATURE = 0.5  # τ that the bias of sCL-PU is given for, the default of the objectives
MOST_ROWS = 2_000  # that are compared pair by pair


@dataclass(frozen=True)
class Geometry:
    """An embedding of rows of length 1, seen without negatives; None where it is not known.

    Attributes:
        alignment: mean squared distance of two views of a row.
        uniformity: log mean exp(−2 ‖z_i − z_j‖²) over pairs of unlabelled rows.
        separation: squared distance of the centroids of the labelled positives and of the rows labelled negative.
    """

    alignment: float | None = None
    uniformity: float | None = None
    separation: Estimate | None = None


@dataclass(frozen=True)
class Limits:
    """What can be said before anybody knows the truth; ranges are over the plausible π.

    Attributes:
        n_labelled: n_P.
        n_unlabelled: n_U.
        prior: the plausible π, from where to where.
        noise: share of all positives that counts as negative where U does, π / (γ + π).
        outnumbered: π above which most positives count as negative, γ.
        breakdown: π from which half of all rows are mislabelled, (1 + γ) / 2 (lemma:label_noise).
        kappa: κ = π(1 − π) / (1 + γ).
        geometry: of the embedding.
        bias: of sCL-PU in this embedding, 2κ(ρ_intra − ρ_inter) at τ = 0.5; None where the separation is not known.
    """

    n_labelled: int
    n_unlabelled: int
    prior: Range
    noise: Range
    outnumbered: float
    breakdown: float
    kappa: Range
    geometry: Geometry
    bias: Range | None

    @property
    def messages(self) -> tuple[str, ...]:
        """All of it in words; what is not known is said to be unknown."""
        return (*_about_noise(self), _about_kappa(self), *_about_geometry(self.geometry), _about_bias(self))

    def __str__(self) -> str:
        return "\n".join(self.messages)


def limits(
    n_labelled: int, n_unlabelled: int, *, prior: PriorEstimate | float, geometry: Geometry | None = None
) -> Limits:
    """Label noise, κ and the bias of sCL-PU over the plausible π.

    Args:
        n_labelled: n_P.
        n_unlabelled: n_U, without confirmed negatives.
        prior: π with its interval, a bound on it, or a number.
        geometry: what is known of the embedding.
    """
    gamma, span, seen = n_labelled / n_unlabelled, plausible(prior), geometry or Geometry()
    ends = [kappa(end, gamma) for end in span]
    kappas = min(ends), kappa(0.5, gamma) if span[0] <= 0.5 <= span[1] else max(ends)
    noise = noise_rate(span[0], gamma), noise_rate(span[1], gamma)
    bias = None if seen.separation is None else _bias(kappas, seen.separation.value)
    return Limits(
        n_labelled, n_unlabelled, span, noise, outnumbered_share(gamma), breakdown_share(gamma), kappas, seen, bias
    )


def plausible(prior: PriorEstimate | float) -> Range:
    """From where to where π may lie: one number if it was given, 0 to 1 if its estimate has no interval."""
    if not isinstance(prior, PriorEstimate):
        value = check_share("pucl.diagnose", "prior", prior, closed=True)
        return value, value
    return (prior.value, prior.value) if prior.method == "given" else (prior.low, prior.high)


def noise_rate(prior: float, gamma: float) -> float:
    """E ξ_P = π / (γ + π): the share of all positives that is unlabelled, and counts as negative where U does."""
    return prior / (gamma + prior)


def outnumbered_share(gamma: float) -> float:
    """The π above which ξ_P > ½: a positive is then more likely unlabelled than labelled. It is γ."""
    return gamma


def breakdown_share(gamma: float) -> float:
    """The π from which γ ≤ 2π − 1 (lemma:label_noise): half of all rows are mislabelled. It is (1 + γ) / 2."""
    return (1 + gamma) / 2


def separation(positive: Tensor, negative: Tensor) -> Estimate:
    """The squared distance of two centroids, without the part that few rows add to it.

        ‖m_P − m_N‖² − v_P / n_P − v_N / n_N,    v = Σ ‖z − m‖² / (n − 1)

    where m are the means of n rows. Rows of length 1: 0 for equal centroids, 4 for opposite ones. The standard error is
    that of the projection on m_P − m_N, twice. It is twice the gap ρ_intra − ρ_inter at τ = 1.

    Args:
        positive: rows (n_P, d), at least two.
        negative: rows (n_N, d), at least two.
    """
    p, n = positive.double(), negative.double()
    gap = p.mean(dim=0) - n.mean(dim=0)
    noise = sum(float(rows.var(dim=0).sum()) / len(rows) for rows in (p, n))
    along = sum(float((rows @ gap).var()) / len(rows) for rows in (p, n))
    return Estimate(max(float(gap @ gap) - noise, 0.0), 2 * along**0.5)


def uniformity(rows: Tensor) -> float:
    """How evenly rows of length 1 spread, log mean_{i≠j} exp(−2 ‖z_i − z_j‖²); moving all of them changes nothing."""
    return float(torch.pdist(rows[:MOST_ROWS].double()).square().mul(-2).exp().mean().log())


def geometry_of(z: Tensor, labelled: Tensor, negative: Tensor | None, *, alignment: float | None = None) -> Geometry:
    """The geometry of embeddings (n, d) of length 1, or of such embeddings moved together.

    Args:
        z: embeddings.
        labelled: s, (n,) bool.
        negative: which rows are labelled negative, (n,) bool; None where nobody has labelled any.
        alignment: where it is known.
    """
    free = z[~labelled]
    apart = negative is not None and min(int(labelled.sum()), int(negative.sum())) >= 2
    return Geometry(
        alignment,
        uniformity(free) if len(free) >= 2 else None,
        separation(z[labelled], z[negative]) if apart else None,
    )


def _bias(kappas: Range, squared_distance: float) -> Range:
    """2κ(ρ_intra − ρ_inter), of which the bracket is half the squared distance of the centroids over τ."""
    low, high = (each * squared_distance / TEMPERATURE for each in kappas)
    return low, high


def _about_noise(found: Limits) -> Iterator[str]:
    n_p, n_u = found.n_labelled, found.n_unlabelled
    yield (
        f"Treating unlabelled rows as negatives: with {n_p:,} labelled positives among {n_p + n_u:,} rows, most "
        f"positives count as negatives if more than {_percent(found.outnumbered)} of the unlabelled rows ({n_p:,}) are "
        f"positive; from {_percent(found.breakdown)} on, at least half of all rows are mislabelled, which no robust "
        "method can mend by itself."
    )
    if found.prior == (0.0, 1.0):
        yield "How many of them are positive is unknown here, so whether that fails is, too."
        return
    share, noise = _percents(found.prior), _percents(found.noise)
    yield f"Here {share} of them are positive, so {noise} of all positives would count as negatives: {_outcome(found)}."


def _outcome(found: Limits) -> str:
    """What treating U as negative comes to over the plausible π."""
    low, high = found.prior
    if low >= found.breakdown:
        return "labels are beyond repair for any method that does not know about positives in U"
    if low > found.outnumbered:
        return "a classifier trained that way finds few of them at a threshold of ½, though its ranking may be good"
    if high <= found.outnumbered:
        return "most positives keep their label, so that a classifier trained that way can work"
    return "whether a classifier trained that way can work is unknown, as the share of positives is not known well"


def _about_kappa(found: Limits) -> str:
    words = "the factor in the bias of objectives that take U for a class; it is 0.25 at most"
    return f"κ = π(1 − π)/(1 + γ) is {_range(found.kappa)}, {words}."


def _about_geometry(seen: Geometry) -> Iterator[str]:
    if seen.alignment is None:
        yield "Alignment: unknown, the embedding is not that of an encoder trained with views of these rows."
    else:
        words = "projections of two views at the end of training (0: they agree; 2: nothing in common)"
        yield f"Alignment: {seen.alignment:.2f}, {words}."
    if seen.uniformity is None:
        yield "Uniformity of the embedding: unknown, no embeddings of unlabelled rows are kept."
    else:
        even = f"{seen.uniformity:.2f}".replace("-", "−")
        yield f"Uniformity of the embedding: {even} (0: all rows are the same; −4: spread evenly)."
    if seen.separation is None:
        yield "Separation of the centroids: unknown, that takes embeddings and two rows labelled negative."
    else:
        yield (
            f"Separation of the centroids: {seen.separation}, the squared distance between labelled positives and rows "
            "called negative (0: the same; 2: unrelated; 4: opposite). Whether these rows are negative is unknown."
        )


def _about_bias(found: Limits) -> str:
    if found.bias is None:
        return "Bias of the objective sCL-PU: unknown without the separation."
    name = "Bias of the objective sCL-PU in this embedding"
    if found.bias[1] < 0.005:
        return f"{name}: next to none, below 0.005 of the loss (at τ = {TEMPERATURE:g})."
    return (
        f"{name}: {_range(found.bias)} of the loss (at τ = {TEMPERATURE:g}); it would draw the classes together. ssCL "
        "and puCL have no such bias."
    )


def _range(span: Range) -> str:
    low, high = (f"{end:.2f}" for end in span)
    return low if low == high else f"{low} to {high}"


def _percents(span: Range) -> str:
    low, high = span
    if low == high:
        return _percent(low)
    return f"{100 * low:.3g} to {_percent(high)}" if low > 0 else f"at most {_percent(high)}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
