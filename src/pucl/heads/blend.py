"""Several classifiers of a table as one: the weighted average of their ranks, in which high ranks count most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from pucl.data.own.expand import CATEGORY, MISSING, NUMBER, OTHER, Expand
from pucl.errors import is_number
from pucl.heads.stored import HeadParts, StoredHead, head_from_parts
from pucl.numerics.threads import on_cores

On = Literal["columns", "features"]
ROWS = 4096  # whose features are held at a time
REFERENCE = 1001  # scores that a reference holds at most
MEAN = "geometric mean of the shares of rows above"  # how ranks are averaged; stored, since others were used before
EXPAND = ("source", "kind", "value")  # the tensors of `Expand`


@dataclass(frozen=True)
class Member:
    """One classifier of a blend.

    Attributes:
        name: what it is called in reports.
        head: rows or features → scores (n,).
        on: whether it takes the ``"columns"`` of a table, with codes and missing values, or ``"features"``.
        reference: scores of rows it did not learn from, (m,); see `reference_scores`.
        weight: how much it counts, ≥ 0.
    """

    name: str
    head: StoredHead
    on: On
    reference: Tensor
    weight: float


class RankCurve(nn.Module):
    """From scores to ranks within (0, 1), by a curve through the reference q_1 ≤ … ≤ q_m.

        r(u_k) = (#{q < u_k} + #{q ≤ u_k}) / (2m),    linear between u_k and u_(k+1)
        r(v) = r(u_K) + h e / (1 + e),  e = (v − u_K) / (u_K − u_1),    for v above u_K, and likewise below u_1

    where u_1 < … < u_K are the different values of the reference and h = 1 / (4m), half of what the mid-ranks leave
    free at either end. So r rises with the score everywhere, and stays h away from 0 and from 1. Where all scores of
    the reference are the same, e is v − u_1. The reference is held in float32: scores that differ by rounding errors
    only, as sums over trees in another order do, are one value of it.
    """

    reference: Tensor
    knots: Tensor
    ranks: Tensor

    def __init__(self, reference: Tensor) -> None:
        super().__init__()
        m = len(reference)
        if reference.ndim != 1 or m == 0 or not bool(reference.isfinite().all()):
            raise ValueError("the reference of a member is no vector of finite scores")
        ordered = reference.to(torch.float32).sort().values
        knots, counts = torch.unique_consecutive(ordered, return_counts=True)
        upto = counts.cumsum(0)
        self.register_buffer("reference", ordered)
        self.register_buffer("knots", knots.to(torch.float64), persistent=False)
        self.register_buffer("ranks", (2 * upto - counts).to(torch.float64) / (2 * m), persistent=False)
        self.free = 1 / (4 * m)
        self.spread = float(self.knots[-1] - self.knots[0]) or 1.0

    def forward(self, score: Tensor) -> Tensor:
        """Ranks (n,) of scores (n,), in float64."""
        v = score.to(torch.float64)
        last = len(self.knots) - 1
        if torch.compiler.is_compiling():  # the exporter has no binary search
            above = (v[:, None] > self.knots).sum(dim=1)
        else:
            above = torch.searchsorted(self.knots, v)
        high, low = above.clamp(min(1, last), last), (above - 1).clamp(0, max(last - 1, 0))
        start, end = self.knots[low], self.knots[high]
        share = ((v - start) / torch.where(end > start, end - start, 1.0)).clamp(0, 1)
        inside = self.ranks[low] + share * (self.ranks[high] - self.ranks[low])
        over, under = ((d / self.spread).clamp(min=0) for d in (v - self.knots[-1], self.knots[0] - v))
        return inside + self.free * (over / (1 + over) - under / (1 + under))


class Blend(StoredHead):
    """The weighted average of the ranks that several classifiers give a row, as a logit.

        g(x) = logit(1 − Π_j (1 − r_j(f_j(x)))^w_j)

    where f_j is the score of member j, r_j its rank among scores of rows that the member did not learn from, see
    `RankCurve`, and the weights sum to 1; `pucl.ranking.averaging.averaged_score` says why it is this average.

    Attributes:
        members: what it was made of.
        expand: columns (n, c) → features (n, d).
        heads, curves: f and r of the members.
        weight: w, (members,).
    """

    kind = "blend"
    takes = "rows"
    weight: Tensor

    def __init__(self, members: Sequence[Member], expand: Expand) -> None:
        super().__init__()
        weight = [member.weight for member in members]
        if not all(is_number(w) and w >= 0 for w in weight) or not sum(weight) > 0:
            raise ValueError("the weights of the members are not numbers ≥ 0 with a sum above 0")
        if len({member.name for member in members}) != len(members):
            raise ValueError("two members have the same name")
        if any(member.on not in get_args(On) or isinstance(member.head, Blend) for member in members):
            raise ValueError("a member is a blend itself, or takes neither columns nor features")
        self.members = tuple(members)
        self.heads = nn.ModuleList(member.head for member in members)
        self.curves = nn.ModuleList(RankCurve(member.reference) for member in members)
        self.register_buffer("weight", torch.tensor(weight, dtype=torch.float64) / sum(weight))
        self.expand = expand

    @property
    def weights(self) -> dict[str, float]:
        """How much every member counts; the sum is 1."""
        return {member.name: float(w) for member, w in zip(self.members, self.weight, strict=True)}

    @torch.no_grad()
    def forward(self, rows: Tensor) -> Tensor:
        """Logits (n,) of rows (n, c), a batch of rows at a time."""
        if torch.compiler.is_compiling():  # a graph for any number of rows has no loop over them
            return self._logits(rows)
        return torch.cat(on_cores(self._logits, torch.split(rows, ROWS)))

    def to_parts(self) -> HeadParts:
        """The parts of the members, their tensors under the numbers of the members."""
        about: list[dict[str, Any]] = []
        tensors: dict[str, Tensor] = {}
        for j, member in enumerate(self.members):
            parts = member.head.to_parts()
            about.append({"name": member.name, "on": member.on, "kind": parts.kind, "options": dict(parts.options)})
            tensors |= {f"{j}.{name}": tensor for name, tensor in parts.tensors.items()}
            tensors[f"{j}.reference"] = self.curves[j].get_buffer("reference").cpu().clone()
        shared = {"weight": self.weight, **{f"expand.{name}": getattr(self.expand, name) for name in EXPAND}}
        tensors |= {name: tensor.detach().cpu().clone() for name, tensor in shared.items()}
        return HeadParts(self.kind, {"mean": MEAN, "members": about}, tensors)

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored blend; what does not fit raises KeyError, TypeError, ValueError or RuntimeError."""
        weight, about = parts.tensors["weight"], parts.options["members"]
        if parts.options.get("mean") != MEAN:
            raise ValueError("its ranks were averaged in another way, by an older pucl; fit it again")
        if weight.shape != (len(about),):
            raise ValueError(f"{len(about)} members have weights of shape {tuple(weight.shape)}")
        members = []
        for j, entry in enumerate(about):
            own = {n.partition(".")[2]: t for n, t in parts.tensors.items() if n.startswith(f"{j}.")}
            reference = own.pop("reference")
            head = head_from_parts(HeadParts(entry["kind"], entry["options"], own))
            members.append(Member(str(entry["name"]), head, entry["on"], reference, float(weight[j])))
        expand = _checked(Expand(*(parts.tensors[f"expand.{name}"] for name in EXPAND)))
        blend = cls(members, expand)
        blend(torch.zeros(1, int(expand.source.max()) + 1))  # members of another width are refused now
        return blend

    @torch.no_grad()  # which every thread has to say for itself
    def _logits(self, rows: Tensor) -> Tensor:
        views = {"columns": rows}
        if any(member.on == "features" for member in self.members):
            views["features"] = self.expand(rows).double()  # so that a score does not depend on the other rows
        above = torch.zeros_like(rows[:, 0], dtype=torch.float64)  # log Π_j (1 − r_j)^w_j
        for j, (head, curve) in enumerate(zip(self.heads, self.curves, strict=True)):
            above = above + self.weight[j] * torch.log(1 - curve(head(views[self.members[j].on])))
        return torch.log(torch.exp(-above) - 1).to(rows.dtype)


def _checked(expand: Expand) -> Expand:
    """The same; a ValueError where it cannot make features."""
    source, kind, value = expand.source, expand.kind, expand.value
    shapes = source.ndim == 1 and len(source) > 0 and source.shape == kind.shape == value.shape
    if not shapes or source.dtype != torch.int64 or kind.dtype != torch.int64 or value.dtype != torch.float32:
        raise ValueError("source, kind and value of the features have wrong shapes or types")
    known = torch.isin(kind, torch.tensor([NUMBER, CATEGORY, MISSING, OTHER])).all()
    if not known or bool((source < 0).any()) or not bool(value.isfinite().all()):
        raise ValueError("source, kind or value of a feature is out of range")
    return expand


def reference_scores(scores: Any, size: int = REFERENCE) -> Tensor:
    """At most `size` numbers that stand for scores (n,) of rows a classifier did not learn from, in order.

        q_k = the quantile of the scores at (k − ½) / m,    k = 1 … m

    where m = min(n, size).
    """
    every = np.sort(np.asarray(scores, dtype=np.float64).reshape(-1))
    if len(every) <= size:
        return torch.from_numpy(every)
    return torch.from_numpy(np.quantile(every, (np.arange(size) + 0.5) / size))
