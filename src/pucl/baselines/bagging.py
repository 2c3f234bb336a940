"""Bagging PU (Mordelet & Vert 2014): many small machines, each of P against another handful of U, averaged."""

from dataclasses import dataclass
from math import pi, sqrt
from types import MappingProxyType

import torch
from torch import Tensor, nn

from pucl.baselines.shared.network import Moved
from pucl.baselines.shared.training_problem import PIECE, PUProblem
from pucl.baselines.shared.training_settings import Presets, Settings
from pucl.encoders.inputs import Standardise, to_float
from pucl.errors import check_count, check_positive
from pucl.ranking.thresholds import threshold_for_share
from pucl.registry import register

TOGETHER = 1 << 24  # numbers held for the bags that are fitted at once
FREE = 1e-4  # of the ridge of the constant
ROUNDS = 50  # of Newton's method at most; it ends by itself after five to ten


@dataclass(frozen=True, kw_only=True)
class BaggingSettings(Settings):
    """Those of bagging; settings of networks and batches have no effect.

    Attributes:
        bags: T, how many machines.
        size: K, unlabelled rows of a bag; as many as labelled ones when None.
        max_rows: labelled rows a machine is fitted to, and unlabelled rows of a bag when `size` is None, at most.
        cost: C of the machines.
        width: of the kernel exp(−‖x − x'‖² / (d · width)), of d standardised features.
        features: random features that stand for the kernel.
    """

    bags: int = 100
    size: int | None = None
    max_rows: int = 1000
    cost: float = 1.0
    width: float = 1.0
    features: int = 300

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("bags", "max_rows", "features"):
            check_count(owner, name, getattr(self, name))
        if self.size is not None:
            check_count(owner, "size", self.size)
        check_positive(owner, "cost", self.cost)
        check_positive(owner, "width", self.width)


DEFAULT = BaggingSettings()
PRESETS: Presets = MappingProxyType({})


class Machine(nn.Module):
    """A linear score of random features of the standardised, flattened rows: w · φ(x) + b.

    φ(x) = √(2 / D) cos(V x + u), whose inner products are about those of a Gaussian kernel (Rahimi & Recht 2007).
    """

    def __init__(self, standardise: Standardise, directions: Tensor, phases: Tensor) -> None:
        super().__init__()
        self.standardise = standardise
        self.directions, self.phases = nn.Parameter(directions), nn.Parameter(phases)
        self.weight = nn.Parameter(torch.zeros(len(phases) + 1, device=phases.device))

    def features(self, x: Tensor) -> Tensor:
        """φ(x) and a constant 1 behind it, (n, D + 1)."""
        flat = self.standardise(to_float(x)).flatten(1)
        wave = torch.cos(flat @ self.directions + self.phases) * sqrt(2 / len(self.phases))
        return torch.cat([wave, torch.ones_like(wave[:, :1])], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (n,) of raw rows."""
        return self.features(x) @ self.weight


@register("baselines", reference="Mordelet & Vert 2014")
def bagging(problem: PUProblem, settings: BaggingSettings = DEFAULT) -> nn.Module:
    """The mean of support vector machines, each of P against a bootstrap sample of U.

        f = (1/T) Σ_t f_t,    f_t = argmin_f  ‖f‖² / 2 + C Σ_{i ∈ P ∪ U_t} v_i max(0, 1 − t_i f(x_i))²

    where U_t are K rows drawn from U with replacement, t_i is 1 on P and −1 on U_t, and the weights v give both sides
    the same total. A row of U is scored by the machines that have not drawn it (out of bag). The paper ranks rows and
    stops there; here f − θ is returned, where a share π of U lies above θ out of bag if π is known, and θ = 0 if not:
    there a row is as likely in P as in U, which is the right border for π = 1/2.

    Fidelity: paper only.

    Differs:
        - The hinge is squared and the Gaussian kernel made of random features, so that all machines are solved together
          by Newton's method, and their mean is one linear function of the features.
        - C and the width of the kernel are fixed; the paper chooses them by cross-validation.

    Presets: none, since the paper uses other data; K = n_P as it recommends, T = 100.
    """
    machine = random_machine(problem, settings)
    draws = problem.drawing("bags")
    positives = problem.positives.cpu()
    positives = positives[torch.randperm(len(positives), generator=draws)[: settings.max_rows]].to(problem.device)
    size = settings.size or len(positives)
    bags = torch.randint(len(problem.unlabelled), (settings.bags, size), generator=draws).to(problem.device)
    labelled, unlabelled = machine.features(problem.x[positives]), problem.unlabelled
    weights, wide = [], labelled.shape[1]
    for part in torch.split(bags, max(1, TOGETHER // (wide * (wide + len(labelled) + size)))):
        sample = machine.features(problem.x[unlabelled[part.flatten()]]).view(len(part), size, -1)
        weights.append(solve(labelled, sample, settings.cost))
    every_weight = torch.cat(weights)
    machine.weight.copy_(every_weight.mean(dim=0))
    if problem.prior is None:
        return machine
    scores = out_of_bag_scores(problem, machine, every_weight, bags)
    return Moved(machine, threshold_for_share(scores, problem.prior))


def solve(labelled: Tensor, sample: Tensor, cost: float) -> Tensor:
    """The machines of several bags by Newton's method, which ends when no row crosses its margin any more.

        w = (I + 2 C Σ_{i ∈ A} v_i φ_i φ_iᵀ)⁻¹ 2 C Σ_{i ∈ A} v_i t_i φ_i,    A = {i : t_i w · φ_i < 1}

    where the constant at the end of φ is not penalised (but for a trace).

    Args:
        labelled: features of the labelled rows, the same in every bag, (p, D).
        sample: features of the unlabelled rows of every bag, (T, k, D).
        cost: C.

    Returns:
        w of every bag, (T, D).
    """
    bags, size, wide = sample.shape
    rows = torch.cat([labelled.expand(bags, -1, -1), sample], dim=1)
    side = torch.cat([torch.ones_like(labelled[:, 0]), -torch.ones_like(sample[0, :, 0])])
    half = len(side) / 2
    load = 2 * cost * torch.where(side > 0, half / len(labelled), half / size)
    ridge = torch.ones(wide, device=rows.device)
    ridge[-1] = FREE
    weight, active = torch.zeros(bags, wide, device=rows.device), torch.ones(rows.shape[:2], device=rows.device)
    for _ in range(ROUNDS):
        loads = active * load
        system = torch.diag(ridge) + rows.mT @ (rows * loads[:, :, None])
        right = rows.mT @ (loads * side)[:, :, None]
        weight = torch.cholesky_solve(right, torch.linalg.cholesky(system))[:, :, 0]
        inside = ((rows @ weight[:, :, None])[:, :, 0] * side < 1).to(active.dtype)
        if torch.equal(inside, active):
            break
        active = inside
    return weight


def random_machine(problem: PUProblem, settings: BaggingSettings) -> Machine:
    """A machine with random features and no weights yet."""
    draws, wide = problem.drawing("features"), problem.x[0].numel()
    directions = torch.randn(wide, settings.features, generator=draws) * sqrt(2 / (wide * settings.width))
    phases = 2 * pi * torch.rand(settings.features, generator=draws)
    made = Machine(problem.standardise, directions, phases).to(problem.device)
    return made.requires_grad_(False)


def out_of_bag_scores(problem: PUProblem, machine: Machine, weights: Tensor, bags: Tensor) -> Tensor:
    """The mean score of every unlabelled row over the machines that did not draw it, or all if all did, (n_U,)."""
    unlabelled = problem.unlabelled
    drawn = torch.zeros(len(unlabelled), len(bags), dtype=torch.bool, device=bags.device)
    drawn[bags.flatten(), torch.arange(len(bags), device=bags.device).repeat_interleave(bags.shape[1])] = True
    scores = []
    for at, rows in enumerate(torch.split(unlabelled, PIECE)):
        free = (~drawn[at * PIECE : (at + 1) * PIECE]).float()
        each = machine.features(problem.x[rows]) @ weights.T
        count = free.sum(dim=1)
        scores.append(torch.where(count > 0, (each * free).sum(dim=1) / count.clamp(min=1), each.mean(dim=1)))
    return torch.cat(scores)
