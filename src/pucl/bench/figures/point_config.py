"""Four points on a square: which arrangements every objective prefers."""

from functools import partial
from itertools import permutations

import torch
from torch import Tensor

from pucl.bench.figures.picture import Cloud, Panel, Picture
from pucl.losses.pairs import Pairs
from pucl.registry import get, register

# Triangles and circles, first the blue ones, which are labelled, then the orange ones (red in the paper): rows i and
# i + 2 are of one shape.
POINTS = (("blue triangle", "^", 0), ("blue circle", "o", 0), ("orange triangle", "^", 1), ("orange circle", "o", 1))
CORNERS = ((-1.0, 1.0), (1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))
OBJECTIVES = (("sscl", "ssCL"), ("scl", "sCL"), ("pucl", "puCL"))
TEMPERATURE = 0.5
STARTS = 4  # of the descent from random places on the circle
SAME = 1e-6  # energies that are this close are equal


@register("figures", reference="fig:point_config", inputs=("vector",))
def point_config() -> Picture:
    """Four points on a square: the arrangements of least energy under ssCL, sCL and puCL.

    Points of one shape are views of one sample; blue is the positive class. ssCL sees shapes, sCL colours, puCL the
    labels of the blue points and the shapes of the others. One blue point keeps its corner, which leaves six
    arrangements. In the last column the points may lie anywhere on the circle.
    """
    panels: list[Panel] = []
    for name, title in OBJECTIVES:
        energies = [energy(name, corners) for corners in arrangements()]
        least = min(energies)
        for corners, value in zip(arrangements(), energies, strict=True):
            panels.append(_panel(f"{title} {value:.2f}", corners, shaded=value - least < SAME))
        places = free_minimum(name)
        panels.append(_panel(f"free: {energy(name, places):.2f}", places))
    conditions = (
        "Numbers: the loss, τ = 0.5; shaded: least of the six arrangements. Points of one shape are views of one "
        "sample; the blue points are labelled positive. Last column: free on the circle."
    )
    title = "Points on a square and their arrangements of least energy"
    return Picture(title, conditions, tuple(panels), columns=7)


def arrangements() -> list[Tensor]:
    """The six ways (4, 2) to place the points on the corners, the first point always on the first."""
    return [torch.tensor([CORNERS[0], *order], dtype=torch.float64) for order in permutations(CORNERS[1:])]


def energy(objective: str, places: Tensor) -> float:
    """The loss of the four points at `places` (4, 2), as directions from the centre of the square."""
    return float(_loss(objective, places))


def free_minimum(objective: str) -> Tensor:
    """The places (4, 2) on the circle of least loss, by descent from several starts; the first point stays."""
    generator = torch.Generator().manual_seed(0)
    first = torch.tensor([3 * torch.pi / 4], dtype=torch.float64)
    found = []
    for _ in range(STARTS):
        others = (2 * torch.pi * torch.rand(3, generator=generator, dtype=torch.float64)).requires_grad_()
        descent = torch.optim.LBFGS([others], max_iter=100, line_search_fn="strong_wolfe")
        descent.step(partial(_gradient, objective, first, others, descent))  # type: ignore[no-untyped-call]
        places = _on_circle(torch.cat([first, others.detach()]))
        found.append((energy(objective, places), places))
    return min(found, key=lambda pair: pair[0])[1]


def _gradient(objective: str, first: Tensor, others: Tensor, descent: torch.optim.Optimizer) -> float:
    descent.zero_grad()
    loss = _loss(objective, _on_circle(torch.cat([first, others])))
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


def _loss(objective: str, places: Tensor) -> Tensor:
    z = torch.nn.functional.normalize(places, dim=1)
    pairs = Pairs(z, z.roll(2, 0), torch.tensor([True, True, False, False]), z.dtype)
    terms: Tensor = get("losses", objective).function(pairs, temperature=TEMPERATURE)
    return terms.mean()


def _on_circle(angles: Tensor) -> Tensor:
    return 2**0.5 * torch.stack([angles.cos(), angles.sin()], dim=1)


def _panel(title: str, places: Tensor, *, shaded: bool = False) -> Panel:
    clouds = []
    for (x, y), (series, marker, colour) in zip(places.tolist(), POINTS, strict=True):
        clouds.append(Cloud(series, (x,), (y,), marker, colour, size=70))
    return Panel(title, clouds=tuple(clouds), x_range=(-1.7, 1.7), y_range=(-1.7, 1.7), equal=True, shaded=shaded)
