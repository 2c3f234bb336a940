"""Contrast with a momentum network, a queue and prototypes of the two classes: what PiCO and WConPU have in common."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.learning import PUBatch
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.teachers import follow, teacher_of
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings
from pucl.encoders.inputs import to_float
from pucl.errors import check_count, check_positive, check_share
from pucl.seeds import seeded
from pucl.training.pretraining import default_view
from pucl.views import View, make_view

FULL_STRENGTH, BLURRED = 2.0, 0.5  # of SimCLR's colour distortion, and the share of blurred images


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
        guard: when the classifier takes less than this share of the unlabelled rows of a batch for one of the
            classes, the mean of their logits is the border of pseudo-labels, and not 0.
        start: the epoch, counted from 0, from which pseudo-labels are used; before it each row has only its own key
            for a peer.
    """

    view: str | None = None
    queue: int = 8192
    dim: int = 128
    temperature: float = 0.07
    key_decay: float = 0.999
    prototype_decay: float = 0.99
    guard: float = 0.0
    start: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("queue", "dim"):
            check_count(owner, name, getattr(self, name))
        check_count(owner, "start", self.start, low=0)
        check_positive(owner, "temperature", self.temperature)
        for name in ("key_decay", "prototype_decay", "guard"):
            check_share(owner, name, getattr(self, name), closed=True)


class Projected(nn.Module):
    """A network with a projection head next to its output layer: raw rows → logits (n,) and unit vectors (n, dim)."""

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


def projected(problem: PUProblem, settings: ContrastSettings) -> Projected:
    """A fresh network with its head."""
    network = problem.network()
    with seeded(problem.drawing("projection").initial_seed() >> 31):
        made = Projected(network, settings.dim)
    return made.to(problem.device)


def views_of(problem: PUProblem, settings: ContrastSettings) -> tuple[View, View]:
    """The view of the queries, and a stronger one of the keys where there is one."""
    name = settings.view or default_view(tuple(problem.x.shape[1:]))
    weak = make_view(name)
    return weak, make_view(name, strength=FULL_STRENGTH, blur=BLURRED) if name == "simclr" else weak


class Queue:
    """The last `length` rows of some quantities, oldest overwritten first (He et al. 2020).

    Its place is a tensor, so that it works inside a CUDA graph.

    Args:
        length: how many rows are kept.
        columns: by name a blank row of what is kept: its shape, type and device.
    """

    def __init__(self, length: int, **columns: Tensor) -> None:
        self.columns = {name: like.expand(length, *like.shape).clone() for name, like in columns.items()}
        device = next(iter(columns.values())).device
        self.filled = torch.zeros(length, dtype=torch.bool, device=device)
        self.at = torch.zeros((), dtype=torch.long, device=device)

    def __getitem__(self, name: str) -> Tensor:
        """All rows of one quantity, (length, …); those never written are blank, see `filled`."""
        return self.columns[name]

    @torch.no_grad()
    def push(self, **rows: Tensor) -> None:
        """Append as many rows to each quantity."""
        count = len(next(iter(rows.values())))
        place = (self.at + torch.arange(count, device=self.at.device)) % len(self.filled)
        for name, values in rows.items():
            self.columns[name].index_copy_(0, place, values.detach().to(self.columns[name].dtype))
        self.filled.index_fill_(0, place, True)
        self.at.copy_((self.at + count) % len(self.filled))


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


@torch.no_grad()
def taken_for_positive(logits: Tensor, labelled: Tensor, guard: float) -> Tensor:
    """The classes of a batch as the classifier has it, (n,) bool: labelled rows, and logits above a border.

    The border is 0 while both classes have the share `guard` of the unlabelled rows, and the mean of their logits
    otherwise. As long as U has no negatives that are known, nothing else keeps one class from taking all of it.
    """
    unlabelled = (~labelled).to(logits.dtype)
    count = unlabelled.sum().clamp(min=1)
    share, mean = ((logits > 0) * unlabelled).sum() / count, (logits * unlabelled).sum() / count
    return (logits > mean * (torch.minimum(share, 1 - share) < guard)) | labelled


class Seen(NamedTuple):
    """A step: queries and the pool they are contrasted with, which is themselves, their keys, and the queue.

    Attributes:
        logits: of the rows, (n,).
        queries: their projections, (n, dim).
        keys: those of their other view by the key network, (n, dim).
        positive: whether they are taken for positive, (n,) bool.
        nearest: whether the prototype of the positives is the nearer one, or they are labelled, (n,) bool.
        pool: (m, dim), m = 2 n + queue.
        classes: whether the pool is taken for positive, (m,) bool.
        others: of every query, which of the pool are there and are not itself, (n, m) bool.
    """

    logits: Tensor
    queries: Tensor
    keys: Tensor
    positive: Tensor
    nearest: Tensor
    pool: Tensor
    classes: Tensor
    others: Tensor


class Contrasted:
    """A query network, which learns, a key network, which follows it, a queue of keys (He et al. 2020), prototypes.

    Args:
        problem: the rows.
        settings: how to contrast.
        columns: by name what else the queue holds of every key, as a blank.
    """

    def __init__(self, problem: PUProblem, settings: ContrastSettings, **columns: Tensor) -> None:
        device = problem.device
        self.settings, self.generator = settings, problem.generator
        self.query = projected(problem, settings)
        self.key = teacher_of(self.query).train()  # its norms take the statistics of the batch, as the query's do
        self.weak, self.strong = views_of(problem, settings)
        self.prototypes = Prototypes(settings.dim, settings.prototype_decay, device)
        no = torch.zeros((), dtype=torch.bool, device=device)
        self.queue = Queue(settings.queue, z=torch.zeros(settings.dim, device=device), positive=no, **columns)
        self.started = no.clone()

    def begin(self, epoch: int) -> None:
        """Before an epoch: whether pseudo-labels are used from now on."""
        self.started.fill_(epoch >= self.settings.start)

    def look(self, batch: PUBatch) -> Seen:
        """See both views of a batch; the key network takes its step, the prototypes and the queue do not yet."""
        rows = to_float(batch.x)
        logits, queries = self.query(self.weak(rows, self.generator))
        with torch.no_grad():
            follow(self.key, self.query, self.settings.key_decay)
            keys = self.key(self.strong(rows, self.generator))[1]
            positive = taken_for_positive(logits, batch.labelled, self.settings.guard)
            nearest = self.prototypes.nearest(queries) | batch.labelled
        pool = torch.cat([queries, keys, self.queue["z"].clone()])
        there = torch.cat([torch.ones_like(positive), torch.ones_like(positive), self.queue.filled])
        others = there & (self._places(pool) != self._places(queries)[:, None])
        classes = torch.cat([positive, positive, self.queue["positive"]])
        return Seen(logits, queries, keys, positive, nearest, pool, classes, others)

    def own(self, seen: Seen) -> Tensor:
        """Of every query its own key in the pool, (n, m) bool."""
        return self._places(seen.pool) == self._places(seen.queries)[:, None] + len(seen.queries)

    def instance_loss(self, seen: Seen) -> Tensor:
        """MoCo's contrast: every query is drawn to its own key, away from the queue."""
        own, queued = self.own(seen), self._places(seen.pool) >= 2 * len(seen.queries)
        return contrast(seen.queries, seen.pool, own, own | (seen.others & queued), self.settings.temperature)

    def remember(self, seen: Seen, **columns: Tensor) -> None:
        """At the end of a step: draw the prototypes, and put the keys into the queue with what it holds of them."""
        self.prototypes.pull(seen.queries.detach(), seen.positive)
        self.queue.push(z=seen.keys, positive=seen.positive, **columns)

    def _places(self, rows: Tensor) -> Tensor:
        return torch.arange(len(rows), device=rows.device)


def contrast(
    queries: Tensor, pool: Tensor, peers: Tensor, among: Tensor, temperature: float, load: Tensor | None = None
) -> Tensor:
    """Every query is drawn to its peers and away from all it is set among.

        L = − mean_i mean_{j ∈ peers(i)} log( exp(q_i · z_j / τ) / Σ_{l ∈ among(i)} ω_il exp(q_i · z_l / τ) )

    Args:
        queries: q, (n, dim).
        pool: z, (m, dim).
        peers: (n, m) bool; a query without any counts 0.
        among: (n, m) bool, with one at least for every query.
        temperature: τ.
        load: log ω, (n, m); all 0 when not given.
    """
    near = queries @ pool.T / temperature
    loaded = near if load is None else near + load
    whole = loaded.masked_fill(~among, -torch.inf).logsumexp(dim=1)
    count = peers.sum(dim=1)
    drawn = (near * peers).sum(dim=1) / count.clamp(min=1)
    return ((whole - drawn) * (count > 0)).mean()
