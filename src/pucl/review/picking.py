"""Which rows are worth a look: most likely positive, most doubtful, most different from what is known."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.errors import check_count, unknown_name
from pucl.review.strategies import DIFFERENT, DOUBTFUL, LIKELY, MIXED, RANDOM, STRATEGIES

TURNS = (LIKELY, DOUBTFUL, DIFFERENT)  # of a mixture
WHY: Mapping[str, str] = MappingProxyType({
    LIKELY: "most likely positive",
    DOUBTFUL: "most doubtful",
    DIFFERENT: "most different from what is known",
    RANDOM: "picked at random",
})  # fmt: skip
AGAIN = "asked again: its answers contradict each other"
MOST_COMPARED = 50_000  # rows whose distance from what is known is looked at
PIECE = 1 << 22  # distances held at a time


class Pick(NamedTuple):
    """A row by its number, and why it is worth a look."""

    row: int
    why: str


def check_strategy(name: str) -> str:
    """The name of a strategy, or one error."""
    if name not in STRATEGIES:
        raise unknown_name("strategy", name, STRATEGIES)
    return name


def pick(
    strategy: str,
    n: int,
    logits: NDArray[np.float64],
    z: Tensor,
    free: NDArray[np.bool_],
    known: NDArray[np.bool_],
    *,
    seed: int = 0,
    again: NDArray[np.bool_] | None = None,
) -> list[Pick]:
    """At most n different rows, the first of them the ones that are to be asked again.

    Args:
        strategy: ``"likely"``: the highest scores; ``"doubtful"``: the scores nearest to the threshold;
            ``"different"``: farthest from all known rows and from each other; ``"mixed"``: these three in turn;
            ``"random"``: a random sample.
        n: how many.
        logits: of the model, positive above 0, (n,).
        z: embeddings (n, k).
        free: rows that may be picked, (n,).
        known: rows whose label is known, or that were asked already, (n,).
        seed: of the random sample, and of the rows that are compared where there are very many.
        again: rows to be asked again, (n,).
    """
    check_strategy(strategy)
    check_count("pucl", "n", n)
    first = [] if again is None else np.flatnonzero(again)[:n].tolist()
    picks = [Pick(row, AGAIN) for row in first]
    open_ = free.copy()
    open_[first] = False
    orders = {name: _order(name, logits, z, open_, known, seed) for name in _turns(strategy)}
    taken, turn = set(first), 0
    while len(picks) < n and orders:
        name = list(orders)[turn % len(orders)]
        row = next((row for row in orders[name] if row not in taken), None)
        if row is None:
            orders.pop(name)
            continue
        picks.append(Pick(row, WHY[name]))
        taken.add(row)
        turn += 1
    return picks


def _turns(strategy: str) -> tuple[str, ...]:
    return TURNS if strategy == MIXED else (strategy,)


def _order(
    name: str,
    logits: NDArray[np.float64],
    z: Tensor,
    free: NDArray[np.bool_],
    known: NDArray[np.bool_],
    seed: int,
) -> Iterator[int]:
    """The free rows by a strategy, the best first; equal ones in their order."""
    rows = np.flatnonzero(free)
    if name == DIFFERENT:
        return farthest(z, rows, np.flatnonzero(known), seed)
    if name == RANDOM:
        return iter(np.random.default_rng(seed).permutation(rows).tolist())
    value = -logits[rows] if name == LIKELY else np.abs(logits[rows])
    return iter(rows[np.argsort(value, kind="stable")].tolist())


def farthest(z: Tensor, rows: NDArray[np.intp], known: NDArray[np.intp], seed: int) -> Iterator[int]:
    """Rows in the order in which each is the farthest from all before it and from the known ones.

        i_k = argmax_i  min_{j ∈ known ∪ {i_1 … i_(k−1)}} ‖z_i − z_j‖

    Without known rows the first is the farthest from the mean. Of more than `MOST_COMPARED` rows a random choice is
    looked at.
    """
    draw = np.random.default_rng(seed)
    rows, known = (np.sort(draw.permutation(some)[:MOST_COMPARED]) for some in (rows, known))
    if not len(rows):
        return
    x = z[torch.from_numpy(rows)].float()
    near = _nearest(x, z[torch.from_numpy(known)].float() if len(known) else x.mean(dim=0, keepdim=True))
    for _ in range(len(rows)):
        best = int(near.argmax())
        yield int(rows[best])
        near = torch.minimum(near, (x - x[best]).pow(2).sum(dim=1))
        near[best] = -torch.inf


def _nearest(x: Tensor, others: Tensor) -> Tensor:
    """The squared distance of every row to the nearest of the others, (n,)."""
    size = max(1, PIECE // max(1, len(others)))
    parts = [torch.cdist(part, others).min(dim=1).values.pow(2) for part in torch.split(x, size)]
    return torch.cat(parts)
