"""Neighbours: labels by the default labeller on principal axes of the raw rows, decisions by the nearest rows."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Presets, Settings
from pucl.encoders.inputs import Standardise, to_float
from pucl.errors import check_count, check_positive
from pucl.heads import fit_head
from pucl.numerics.pca import principal_axes
from pucl.pseudo_labels import pseudo_label
from pucl.ranking.whitening import default_whitening
from pucl.registry import register


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(Settings):
    """Those of neighbours; settings of networks and batches have no effect.

    Attributes:
        axes: how many principal axes of the rows are kept.
        k: how many neighbours vote.
        temperature: τ of their votes.
        max_rows: rows that the axes are computed from, at most.
    """

    axes: int = 256
    k: int = 40
    temperature: float = 0.05
    max_rows: int = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("axes", "k", "max_rows"):
            check_count(owner, name, getattr(self, name))
        check_positive(owner, "temperature", self.temperature)


DEFAULT = NeighbourSettings()
PRESETS: Presets = MappingProxyType({})


class PrincipalAxes(nn.Module):
    """Raw rows along some directions: (x − mean) V of the standardised, flattened rows."""

    def __init__(self, standardise: Standardise, mean: Tensor, axes: Tensor) -> None:
        super().__init__()
        self.standardise = standardise
        self.register_buffer("mean", mean)
        self.register_buffer("axes", axes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, …) → (n, k)."""
        along: Tensor = (self.standardise(to_float(x)).flatten(1) - self.mean) @ self.axes
        return along


@register("baselines", reference="ours")
def neighbours(problem: PUProblem, settings: NeighbourSettings = DEFAULT) -> nn.Module:
    """No network: labels by `stacked` on principal axes of the raw rows, then a vote of the nearest.

        z = Vᵀ (x − mean),    f(z) = logit((k v(z) + c) / (k + 1)) − logit(c) + logit(π)

    where V are the axes of largest variance, v is the share of positive votes among the k nearest rows in cosine
    similarity, weighted by nearness and reliability, and c that of all rows: the head `knn`, on rows centred and
    whitened as for the labeller. A learnt encoder has to beat it. It needs no prior but uses one that is given.

    Fidelity: ours.

    Presets: none, one setting for all.
    """
    encoder = principal_axes_of(problem, settings).to(problem.device)
    z = torch.cat(list(problem.each(encoder, encoder, None)))
    labelled = problem.labelled
    pseudo = pseudo_label(z, labelled, prior=problem.prior, seed=problem.seed)
    vote = {"k": settings.k, "temperature": settings.temperature}
    head = fit_head(z, labelled, pseudo, method="knn", **vote, centred=True, whitening=default_whitening(labelled))
    return nn.Sequential(encoder, head)


def principal_axes_of(problem: PUProblem, settings: NeighbourSettings) -> PrincipalAxes:
    """The principal axes of some of the rows."""
    rows = torch.randperm(len(problem.x), generator=problem.drawing("rows"))[: settings.max_rows].to(problem.device)
    flat = problem.standardise(to_float(problem.x[rows])).flatten(1)
    mean = flat.mean(dim=0)
    axes, _ = principal_axes(flat - mean, settings.axes, seed=problem.seed, max_rows=settings.max_rows)
    return PrincipalAxes(problem.standardise, mean, axes)
