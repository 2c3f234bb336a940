"""Decision boundaries of PU methods on a mixture of two Gaussians, from many to few labelled positives."""

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from pucl.bench.figures.picture import Cloud, Curve, Panel, Picture
from pucl.data import Dataset
from pucl.data.gaussians import gaussians
from pucl.data.observe import observe
from pucl.heads import LinearHead, fit_head
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.registry import register

GAMMAS = (Fraction(1, 4), Fraction(1, 10), Fraction(1, 25), Fraction(1, 50))
N_UNLABELLED, SEPARATION, PRIOR, SEED = 1000, 4.0, 0.5, 0
EDGE = 5.0  # of what is shown, in standard deviations


@register("figures", reference="fig:puPL_gmm", name="pupl_gmm", inputs=("vector",))
def pupl_gmm() -> Picture:
    """Boundaries of CE*, CE, nnPU, puPL and ours on two Gaussians, from γ = 1/4 to γ = 1/50.

    All are linear classifiers of the raw rows. CE* knows the truth, CE takes U as negative, nnPU is given the true π;
    puPL and ours are cross-entropy on the pseudo-labels of `pupl` and of the default labeller, which are not. puPL has
    its guard against exchanged classes, which the paper does not have: on some draws all its labels are wrong without.
    """
    data = gaussians(seed=SEED, n_train=4000, n_test=4000, modes=1, separation=SEPARATION, prior=PRIOR)
    panels = tuple(_panel(data, gamma) for gamma in GAMMAS)
    conditions = (
        f"Two Gaussians of unit variance, {SEPARATION:g} apart, π = {PRIOR:g}, n_U = {N_UNLABELLED:,}; one draw, seed "
        f"{SEED}. Numbers: accuracy in % on 4,000 test rows. All classifiers are linear; puPL has its guard against "
        "exchanged classes."
    )
    title = "Decision boundaries on a Gaussian mixture as labelled positives become few"
    return Picture(title, conditions, panels, columns=2)


def classifiers(data: Dataset, n_labelled: int) -> tuple[dict[str, LinearHead], Tensor, Tensor]:
    """The five classifiers by name, the rows they learned from and which of these are labelled."""
    seen = observe(data, n_labelled, n_unlabelled=N_UNLABELLED, prior=PRIOR, seed=SEED)
    x, s = torch.from_numpy(seen.x), torch.from_numpy(seen.s)
    y = torch.from_numpy(data.y_train[seen.sample.rows])
    naive = PseudoLabels.from_probability(s.float(), s)
    fits = {
        "CE* (truth)": fit_head(x, s, PseudoLabels.from_probability(y.float(), s)),
        "CE": fit_head(x, s, naive),
        "nnPU (true π)": fit_head(x, s, naive, method="nnpu", prior=PRIOR),
        "puPL (guarded)": fit_head(x, s, pseudo_label(x, s, method="pupl", guard=True, seed=SEED)),
        "ours": fit_head(x, s, pseudo_label(x, s, seed=SEED)),
    }
    return {name: head for name, head in fits.items() if isinstance(head, LinearHead)}, x, s


def boundary(head: LinearHead) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two points, beyond what is shown, of the line w · x + b = 0, as their abscissae and their ordinates."""
    w, b = head.weight.double().numpy(), float(head.bias)
    foot, along = -b * w / (w @ w), np.array([-w[1], w[0]]) / math.sqrt(w @ w)
    first, second = foot - 3 * EDGE * along, foot + 3 * EDGE * along
    return (float(first[0]), float(second[0])), (float(first[1]), float(second[1]))


def accuracy(head: LinearHead, data: Dataset) -> float:
    """The share of the test rows on their true side, in per cent."""
    right = (head(torch.from_numpy(data.x_test)) > 0).numpy() == data.y_test
    return 100 * float(right.mean())


def _panel(data: Dataset, gamma: Fraction) -> Panel:
    n_labelled = int(gamma * N_UNLABELLED)
    heads, x, s = classifiers(data, n_labelled)
    scores = ", ".join(f"{name.split()[0]} {accuracy(head, data):.1f}" for name, head in heads.items())
    curves = tuple(Curve(name, *boundary(head)) for name, head in heads.items())
    clouds = (_cloud("unlabelled (every fourth)", x[~s][::4], ".", 5, 10), _cloud("labelled positive", x[s], "o", 6, 9))
    return Panel(
        f"γ = {gamma} ({n_labelled} labelled)\n{scores}", "first coordinate (standard deviations)",
        "second coordinate", curves, clouds, x_range=(-EDGE, EDGE), y_range=(-EDGE, EDGE),
    )  # fmt: skip


def _cloud(series: str, x: Tensor, marker: str, colour: int, size: float) -> Cloud:
    return Cloud(series, tuple(x[:, 0].tolist()), tuple(x[:, 1].tolist()), marker, colour, size)
