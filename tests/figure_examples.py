"""Figures of the paper for tests."""

from pucl.bench.figures.making import FAMILY
from pucl.bench.figures.picture import Picture
from pucl.registry import entries


def picture(name: str) -> Picture:
    made = entries(FAMILY)[name].function()
    assert isinstance(made, Picture)
    return made
