"""Recipes: how an encoder is trained, by name in a grid, with every number written out in a cell."""

from collections.abc import Mapping
from typing import Any, get_type_hints

import torch

from pucl.bench.grid.options import from_json, keywords, resolved, values_of
from pucl.errors import bad_argument, blamed_on, check_positive, check_share
from pucl.registry import get
from pucl.training.config import FREE, TrainConfig
from pucl.views import View, make_view

TASK, VIEW, VIEW_OPTIONS, TEMPERATURE = "task", "view", "view_options", "temperature"
WITHHELD = "withheld"  # the share of the labelled rows that the encoder is not told of
OWN = ("seed", *FREE)  # the cell's own, or without influence on what is computed


def resolve_recipe(owner: str, given: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The recipe of a grid for one task: what it says for all, then what it says under ``task.NAME``, then defaults.

    Its options are those of `TrainConfig`, `temperature`, `view` (which has to be given), `view_options`, and the share
    `withheld` of the labelled rows that the encoder is not told of, which then stand for the positives by themselves.
    """
    special = given.get(TASK, {})
    if not isinstance(special, Mapping) or not all(isinstance(value, Mapping) for value in special.values()):
        raise bad_argument(owner, TASK, "tables by the name of a task", special)
    for name in special:
        with blamed_on(f"{owner}: {TASK}"):
            get("datasets", name)
    merged = {**given, **special.get(task, {})}
    merged.pop(TASK, None)
    view, view_options = merged.pop(VIEW, None), merged.pop(VIEW_OPTIONS, {})
    defaults = {**values_of(TrainConfig), TEMPERATURE: 0.5, WITHHELD: 0.0}
    known, kinds = {**defaults, VIEW: None, VIEW_OPTIONS: None}, get_type_hints(TrainConfig)
    recipe = resolved(owner, known, merged, kinds=kinds, without=OWN)
    if not isinstance(view, str):
        raise bad_argument(owner, VIEW, "the name of a view; see 'pucl list views'", view)
    check_positive(owner, TEMPERATURE, recipe[TEMPERATURE])
    if WITHHELD in recipe:
        check_share(owner, WITHHELD, recipe[WITHHELD])
    with blamed_on(owner):
        train_config(recipe, seed=0)  # its values are checked where it is made
        return {**recipe, VIEW: view, VIEW_OPTIONS: resolve_view(view, view_options)}


def resolve_view(name: str, given: Any) -> dict[str, Any]:
    """The options of a view; it is shown blank rows, as it checks their values where it is used."""
    entry = get("views", name)
    options = resolved(f"view {name!r}", keywords(entry.function), given, kinds=get_type_hints(entry.function))
    blank = torch.zeros(2, 1, 32, 32) if "image" in entry.inputs else torch.zeros(2, 4)
    make_view(name, **from_json(options))(blank, torch.Generator())
    return options


def train_config(recipe: Mapping[str, Any], *, seed: int) -> TrainConfig:
    """The optimisation a recipe of a cell means."""
    named = {name: value for name, value in recipe.items() if name not in (TEMPERATURE, VIEW, VIEW_OPTIONS, WITHHELD)}
    return TrainConfig(**from_json(named), seed=seed)


def view_of(recipe: Mapping[str, Any]) -> View:
    """The view a recipe of a cell, or the options of a fine-tuning, mean."""
    return make_view(recipe[VIEW], **from_json(recipe[VIEW_OPTIONS]))
