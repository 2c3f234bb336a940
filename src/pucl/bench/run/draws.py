"""Whether the data allow the draws of P and U that cells ask for; known before anything is run."""

from collections.abc import Iterable
from functools import cache

from pucl.bench.grid.cells import ORACLE, Cell
from pucl.bench.grid.place import Place
from pucl.bench.run.exam import given_prior
from pucl.data import Dataset, load
from pucl.data.observe import draw
from pucl.errors import blamed_on


def check_draws(cells: Iterable[Cell]) -> None:
    """Refuse the first cell whose n_U, π, way of labelling or error of π its data do not allow, in one line.

    Only cells that vary one of these are looked at, since their data have to be loaded for it.
    """
    loaded = cache(lambda task, seed: load(task, seed=seed))
    priors: dict[Place, float | None] = {}
    for cell in cells:
        if not (cell.place.changes or cell.prior_error):
            continue
        with blamed_on(cell.place.words):
            if cell.place not in priors:
                priors[cell.place] = _prior(loaded(cell.place.task, cell.place.seed), cell.place)
            prior = priors[cell.place]
            if cell.prior == ORACLE and prior is not None:
                given_prior(prior, cell.prior_error)


def _prior(data: Dataset, place: Place) -> float | None:
    """The true π of a place; None if nobody knows it."""
    sample = draw(data, place.n_labelled, **place.options)
    return sample.prior if data.x_unlabelled is None else None
