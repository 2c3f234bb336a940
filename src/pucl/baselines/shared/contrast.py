"""Contrast with a momentum network, a queue and prototypes of the two classes: what PiCO and WConPU have in common."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.averaging import follow, teacher_of
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.queue import Queue
from pucl.baselines.shared.settings import Settings
from pucl.encoders.inputs import to_float
from pucl.errors import check_count, check_positive, check_share
from pucl.training.pretraining import default_view
from pucl.views import View, make_view

STRONGER = MappingProxyType({"simclr": MappingProxyType({"strength": 2.0, "blur": 0.5})})  # by view


@dataclass(frozen=True, kw_only=True)
class ContrastSettings(Settings):
    """Those of a classifier that learns by contrast, too.

    Attributes:
        view: a registered view; by the shape of the rows when None.
        queue: how many past keys are contrasted with.
        dim: of the projections.
        temperature: τ of the contrast.
        key_decay: of the weights of the key network, which follow those of the query network.
        prototype_decay: of the prototypes, for every row that is added.
        start: the epoch, counted from 0, from which pseudo-labels are used; before it each row has only its own key
            for a peer.
    """

    view: str | None = None
    queue: int = 8192
    dim: int = 128
    temperature: float = 0.07
    key_decay: float = 0.999
    prototype_decay: float = 0.99
    start: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("queue", "dim"):
            check_count(owner, name, getattr(self, name))
        check_count(owner, "start", self.start, low=0)
        check_positive(owner, "temperature", self.temperature)
        for name in ("key_decay", "prototype_decay"):
            check_share(owner, name, getattr(self, name), closed=True)


class Projected(nn.Module):
    """A network with a projection head beside its output layer: raw rows → logits (n,) and unit vectors (n, dim)."""

    def __init__(self, network: Network, dim: int) -> None:
        super().__init__()
        wide = network.layer.in_features
        self.network = network
        self.head = nn.Sequential(nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and projections, in float32."""
        z = self.network.features(x)
        with torch.autocast(z.device.type, torch.bfloat16, enabled=self.network.low):
            projected: Tensor = self.head(F.relu(z) if self.network.relu else z)
        return self.network.score(z), F.normalize(projected.float(), dim=1)


def projected(problem: Problem, settings: ContrastSettings) -> Projected:
    """A fresh network with its head."""
    network = problem.network()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(problem.drawing("projection").initial_seed() >> 31)
        made = Projected(network, settings.dim)
    return made.to(problem.device)


def views_of(problem: Problem, settings: ContrastSettings) -> tuple[View, View]:
    """The view of the queries, and a stronger one of the keys where there is one."""
    name = settings.view or default_view(tuple(problem.x.shape[1:]))
    compiled = problem.x.is_cuda and problem.x.ndim == 4
    return make_view(name, compiled=compiled), make_view(name, compiled=compiled, **STRONGER.get(name, {}))


class Prototypes:
    """A unit vector for each of the two classes, drawn after the projections of the rows taken for it."""

    def __init__(self, dim: int, decay: float, device: torch.device) -> None:
        self.vectors, self.decay = torch.zeros(2, dim, device=device), decay

    def nearest(self, z: Tensor) -> Tensor:
        """Whether the prototype of the positives is nearer than that of the negatives, (n,) bool."""
        return z @ self.vectors[1] > z @ self.vectors[0]

    @torch.no_grad()
    def pull(self, z: Tensor, positive: Tensor) -> None:
        """Add the rows one after the other, in their order, to the prototypes of their classes.

            μ ← m μ + (1 − m) z_i,    after all rows  μ ← μ / ‖μ‖

        where m is the decay. A row weighs (1 − m) mʳ in the end, where r rows of its class come after it.
        """
        members = torch.stack([~positive, positive], dim=1).to(z.dtype)
        later = members.flip(0).cumsum(0).flip(0) - members
        load = (1 - self.decay) * members * self.decay**later
        moved = self.decay ** members.sum(0)[:, None] * self.vectors + load.T @ z
        self.vectors.copy_(F.normalize(moved, dim=1))


class Pair:
    """A query network, which learns, and a key network, which follows it (He et al. 2020)."""

    def __init__(self, problem: Problem, settings: ContrastSettings) -> None:
        self.query = projected(problem, settings)
        self.key = teacher_of(self.query).train()  # its norms take the statistics of the batch, as the query's do
        self.weak, self.strong = views_of(problem, settings)
        self.decay, self.generator = settings.key_decay, problem.generator

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The logits (n,) and projections (n, dim) of the queries' views of raw rows, and the keys (n, dim)."""
        rows = to_float(x)
        logits, queries = self.query(self.weak(rows, self.generator))
        with torch.no_grad():
            follow(self.key, self.query, self.decay)
            keys = self.key(self.strong(rows, self.generator))[1]
        return logits, queries, keys


class Pool(NamedTuple):
    """What queries are contrasted with: themselves, their keys, and the queue, in this order; m = 2 n + queue.

    Attributes:
        z: (m, dim).
        others: of every query, which of the pool are there and not itself, (n, m) bool.
        own: of every query, its own key, (n, m) bool.
        queued: which of the pool come from the queue, (m,) bool.
    """

    z: Tensor
    others: Tensor
    own: Tensor
    queued: Tensor

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, queue: Queue) -> "Pool":
        """The pool of a step, before its keys join the queue."""
        n, device = len(queries), queries.device
        z = torch.cat([queries, keys, queue["z"].clone()])
        at, row = torch.arange(len(z), device=device), torch.arange(n, device=device)[:, None]
        filled = torch.cat([torch.ones(2 * n, dtype=torch.bool, device=device), queue.filled])
        return cls(z, filled & (at != row), at == row + n, at >= 2 * n)


def contrast(queries: Tensor, pool: Tensor, peers: Tensor, among: Tensor, temperature: float, load: Tensor) -> Tensor:
    """Every query is drawn to its peers and away from all it is set among.

        L = − mean_i mean_{j ∈ peers(i)} log( exp(q_i · z_j / τ) / Σ_{l ∈ among(i)} ω_il exp(q_i · z_l / τ) )

    Args:
        queries: q, (n, dim).
        pool: z, (m, dim).
        peers: (n, m) bool; a query without any counts 0.
        among: (n, m) bool, with one at least for every query.
        temperature: τ.
        load: log ω, (n, m) or something that spreads to it.
    """
    near = queries @ pool.T / temperature
    whole = (near + load).masked_fill(~among, -torch.inf).logsumexp(dim=1)
    count = peers.sum(dim=1)
    drawn = (near * peers).sum(dim=1) / count.clamp(min=1)
    return ((whole - drawn) * (count > 0)).mean()
