"""κ, the factor in the bias of sCL-PU, over the class prior and the strength of supervision."""

import numpy as np

from pucl.bench.figures.picture import Curve, Heat, Panel, Picture
from pucl.data.pu_split import kappa as kappa_of
from pucl.registry import register

PRIOR, GAMMA, KAPPA = "π (share of positives in U)", "γ = n_P / n_U", "κ"
PRIORS, GAMMAS = (0.1, 0.25, 0.5), (0.0, 0.25, 1.0)  # of the cuts
FINE = 41  # values along each axis


@register("figures", reference="fig:kappa_var_3D", inputs=("vector",))
def kappa() -> Picture:
    """The factor κ of sCL-PU's bias over π and γ, and its cuts along either.

        κ = π (1 − π) / (1 + γ)

    It is largest at π = ½ and falls with γ; see `pucl.data.pu_split.kappa`.
    """
    priors, gammas = _steps(), _steps()
    values = tuple(tuple(kappa_of(prior, gamma) for prior in priors) for gamma in gammas)
    over_gamma = [Curve(f"π = {p:g}", gammas, tuple(kappa_of(p, g) for g in gammas)) for p in PRIORS]
    over_prior = [Curve(f"γ = {g:g}", priors, tuple(kappa_of(p, g) for p in priors)) for g in GAMMAS]
    panels = (
        Panel("κ over π and γ", PRIOR, GAMMA, heat=Heat(priors, gammas, values, KAPPA)),
        Panel("over γ, π fixed", GAMMA, KAPPA, tuple(over_gamma), y_range=(0.0, 0.26)),
        Panel("over π, γ fixed", PRIOR, KAPPA, tuple(over_prior), y_range=(0.0, 0.26)),
    )
    return Picture(
        "κ = π(1 − π)/(1 + γ), the factor in the bias of sCL-PU", "Exact values, no runs.", panels, columns=3
    )


def _steps() -> tuple[float, ...]:
    return tuple(np.linspace(0, 1, FINE).tolist())
