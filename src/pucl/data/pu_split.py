"""From a fully labelled set to a PU sample: which rows are labelled positives, which are unlabelled."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.errors import Described, bad_argument, check_count, check_share, unknown_name

Setting = Literal["case-control", "single-set", "overlapping"]
Mechanism = Literal["scar", "sar"]
SETTINGS = ("case-control", "single-set", "overlapping")
MECHANISMS = ("scar", "sar")
OWNER = "pucl.make_pu"


@dataclass(frozen=True)
class PUSample:
    """Rows of a data set and what is observed of them: ``x[sample.rows]`` goes with ``sample.s``.

    ``prior`` is π, the true share of positives inside the unlabelled rows: for benchmarks, never for a method.
    """

    rows: NDArray[np.intp]
    s: NDArray[np.bool_]
    setting: Setting
    prior: float
    mechanism: Mechanism = "scar"

    @property
    def gamma(self) -> float:
        """γ = n_P / n_U, the strength of supervision."""
        return float(self.s.sum() / (~self.s).sum())

    @property
    def kappa(self) -> float:
        """κ = π(1 − π) / (1 + γ), the factor in the bias of sCL-PU (th:scl_pu_bias)."""
        return kappa(self.prior, self.gamma)


def kappa(prior: float, gamma: float) -> float:
    """κ = π(1 − π) / (1 + γ) of th:scl_pu_bias, from the share π of positives in U and γ = n_P / n_U."""
    return prior * (1 - prior) / (1 + gamma)


def make_pu(
    y: Any,
    n_labelled: int,
    *,
    setting: Setting = "case-control",
    prior: float | None = None,
    n_unlabelled: int | None = None,
    mechanism: Mechanism = "scar",
    propensity: Any = None,
    classes: Any = None,
    seed: int = 0,
) -> PUSample:
    """Label `n_labelled` positives drawn at random and hide every other label.

    Labelled and unlabelled rows are different ones, but for the setting ``"overlapping"``. n_P, n_U and π are set
    independently, so γ = n_P / n_U and κ = π(1 − π)/(1 + γ) can be varied one at a time.

    Args:
        y: the truth, True or 1 for positives.
        n_labelled: n_P, how many positives are labelled.
        setting: in ``"case-control"`` U is an independent sample of the population, so its share of positives is that
            of `y` (or `prior`); in ``"single-set"`` U is simply what is left once P has been labelled; in
            ``"overlapping"`` U is drawn from all rows, so that labelled rows are in U too, without their label.
        prior: π, the share of positives wanted inside U (not for single-set).
        n_unlabelled: n_U; as many as possible when not given.
        mechanism: ``"scar"``, labelled completely at random: every positive has the same chance of a label; ``"sar"``,
            labelled at random given x: a positive's chance is proportional to its `propensity`.
        propensity: weights ≥ 0, one per row of `y`, for ``"sar"``; `linear_propensity` makes some from x.
        classes: the class of every row, where several make up the positives: equally many of each are labelled.
        seed: the same seed draws the same rows.
    """
    truth = _truth(y)
    if setting not in SETTINGS:
        raise unknown_name("setting", setting, SETTINGS)
    if setting == "single-set" and prior is not None:
        raise bad_argument(OWNER, "prior", "left out in the single-set setting, where U is what remains", prior)
    weight, groups = _weights(mechanism, propensity, len(truth)), _classes(classes, mechanism, len(truth))
    check_count(OWNER, "seed", seed, low=0)
    rng = np.random.default_rng(seed)
    positives, negatives = rng.permutation(np.flatnonzero(truth)), rng.permutation(np.flatnonzero(~truth))
    check_count(OWNER, "n_labelled", n_labelled, high=len(positives))
    if weight is not None:
        positives = _likeliest_first(positives, weight, n_labelled, rng)
    if groups is not None:
        positives = _balanced_first(positives, groups, n_labelled)
    labelled, rest = positives[:n_labelled], positives[n_labelled:]
    if setting == "overlapping":
        rest = rng.permutation(positives)
    share = float(truth.mean()) if prior is None else check_share(OWNER, "prior", prior)
    unlabelled = _unlabelled(setting, rest, negatives, share, n_unlabelled, rng)
    if len(unlabelled) == 0:
        raise bad_argument(OWNER, "n_labelled", "small enough to leave unlabelled rows", n_labelled)
    rows = np.concatenate([labelled, rng.permutation(unlabelled)])
    s = np.arange(len(rows)) < n_labelled
    return PUSample(rows, s, setting, float(truth[rows[~s]].mean()), mechanism)


def _unlabelled(
    setting: str,
    positives: NDArray[np.intp],
    negatives: NDArray[np.intp],
    share: float,
    n_unlabelled: int | None,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """U: with the wanted share of positives, or in the single-set setting what remains."""
    if setting != "single-set":
        n_pos, n_neg = _composition(share, len(positives), len(negatives), n_unlabelled)
        return np.concatenate([positives[:n_pos], negatives[:n_neg]])
    rest = rng.permutation(np.concatenate([positives, negatives]))
    n = len(rest) if n_unlabelled is None else check_count(OWNER, "n_unlabelled", n_unlabelled, high=len(rest))
    return rest[:n]


def linear_propensity(x: Any, *, strength: float = 2.0) -> NDArray[np.float64]:
    """Labelling weights that grow along the direction in which the rows vary most.

        e(x) = σ(strength · (x · v − mean) / spread)

    where v is the first principal axis of the rows, turned so that its largest component is positive, and mean and
    spread are those of the projections x · v. Strength 0 is labelling completely at random.
    """
    rows = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    centred = rows - rows.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axis = axes[:, -1] * np.sign(axes[np.abs(axes[:, -1]).argmax(), -1])
    along = centred @ axis
    return np.asarray(1 / (1 + np.exp(-strength * along / max(along.std(), 1e-12))))


def _weights(mechanism: str, propensity: Any, n: int) -> NDArray[np.float64] | None:
    if mechanism not in MECHANISMS:
        raise unknown_name("mechanism", mechanism, MECHANISMS)
    if mechanism == "scar":
        if propensity is not None:
            raise bad_argument(OWNER, "propensity", "left out unless mechanism='sar'", Described("weights"))
        return None
    allowed = f"{n} finite weights ≥ 0, one per row of y, for mechanism='sar'"
    if propensity is None:
        raise bad_argument(OWNER, "propensity", allowed, None)
    weight = np.asarray(propensity, dtype=np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise bad_argument(OWNER, "propensity", allowed, Described(f"an array of shape {weight.shape}"))
    return weight


def _likeliest_first(
    positives: NDArray[np.intp], weight: NDArray[np.float64], n: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """The positives with `n` of them, drawn by weight without replacement, moved to the front."""
    chance = weight[positives]
    if (chance > 0).sum() < n:
        got = Described(f"{int((chance > 0).sum())} positives with a weight above 0")
        raise bad_argument(OWNER, "propensity", f"positive for at least {n} positives", got)
    drawn = rng.choice(len(positives), size=n, replace=False, p=chance / chance.sum())
    return np.concatenate([positives[drawn], np.delete(positives, drawn)])


def _classes(classes: Any, mechanism: str, n: int) -> NDArray[Any] | None:
    if classes is None:
        return None
    if mechanism != "scar":
        raise bad_argument(OWNER, "classes", "left out unless mechanism='scar'", Described("some"))
    groups = np.asarray(classes)
    if groups.shape != (n,):
        raise bad_argument(OWNER, "classes", f"{n} classes, one per row of y", Described(f"shape {groups.shape}"))
    return groups


def _balanced_first(positives: NDArray[np.intp], classes: NDArray[Any], n: int) -> NDArray[np.intp]:
    """The positives with `n` of them, as equally many of every class as `n` allows, moved to the front."""
    own = classes[positives]
    names = np.unique(own)
    wanted = n // len(names) + (np.arange(len(names)) < n % len(names))
    chosen = np.zeros(len(positives), dtype=bool)
    for name, count in zip(names, wanted, strict=True):
        where = np.flatnonzero(own == name)
        if len(where) < count:
            got = Described(f"{len(where)} of class {name}")
            raise bad_argument(OWNER, "n_labelled", f"small enough for {count} positives of every class", got)
        chosen[where[:count]] = True
    return np.concatenate([positives[chosen], positives[~chosen]])


def _composition(share: float, n_pos: int, n_neg: int, n_unlabelled: int | None) -> tuple[int, int]:
    """How many positives and negatives make U, with the wanted share and no more rows than there are."""
    largest = int(min(n_pos / share, n_neg / (1 - share)) + 1e-9)
    n = largest if n_unlabelled is None else n_unlabelled
    if n_unlabelled is not None:
        check_count(OWNER, "n_unlabelled", n_unlabelled, high=largest)
    wanted = min(round(share * n), n_pos)
    return wanted, min(n - wanted, n_neg)


def _truth(y: Any) -> NDArray[np.bool_]:
    values = np.asarray(y)
    if values.ndim != 1 or not np.isin(values, [0, 1]).all():
        raise bad_argument(OWNER, "y", "a vector of 0 and 1 (or booleans)", Described(f"{values.dtype}{values.shape}"))
    if values.all() or not values.any():
        raise bad_argument(OWNER, "y", "a vector with both classes", Described("one class only"))
    return values.astype(bool)
