"""Recipes: how an encoder is trained, by name in a grid, with every number written out in a cell."""

from collections.abc import Mapping
from typing import get_type_hints

import torch

from pucl.bench.grid.cells import NOT_IN_RECIPES, PretrainRecipe
from pucl.bench.grid.decode import Option, Options, as_table, from_json, keywords, resolved, values_of
from pucl.errors import bad_argument, blamed_on, check_positive, check_share
from pucl.registry import get
from pucl.training.config import TrainConfig
from pucl.views import View, make_view

TASK, VIEW, VIEW_OPTIONS = "task", "view", "view_options"
TEMPERATURE, WITHHELD = "temperature", "withheld"


def resolve_recipe(owner: str, given: Options, task: str) -> PretrainRecipe:
    """The recipe of a grid for one task: values under ``task.NAME`` go before those for all tasks, and defaults last.

    Its options are those of `TrainConfig`, `temperature`, `view` (which has to be given), `view_options`, and the share
    `withheld` of the labelled rows whose labels the encoder does not see: these represent the positives inside U.
    """
    special = given.get(TASK, {})
    if not isinstance(special, Mapping) or not all(isinstance(table, Mapping) for table in special.values()):
        raise bad_argument(owner, TASK, "tables by the name of a task", special)
    for name in special:
        with blamed_on(f"{owner}: {TASK}"):
            get("datasets", name)
    merged = {**given, **as_table(owner, TASK, special.get(task, {}))}
    merged.pop(TASK, None)
    view, view_options = merged.pop(VIEW, None), merged.pop(VIEW_OPTIONS, {})
    defaults = {**values_of(TrainConfig), TEMPERATURE: 0.5, WITHHELD: 0.0}
    known, kinds = {**defaults, VIEW: None, VIEW_OPTIONS: None}, get_type_hints(TrainConfig)
    options = resolved(owner, known, merged, kinds=kinds, without=NOT_IN_RECIPES)
    if not isinstance(view, str):
        raise bad_argument(owner, VIEW, "the name of a view; see 'pucl list views'", view)
    temperature = check_positive(owner, TEMPERATURE, options.pop(TEMPERATURE))
    withheld = options.pop(WITHHELD, 0.0)
    if withheld:
        check_share(owner, WITHHELD, withheld)
    with blamed_on(owner):
        training = TrainConfig(**from_json(options))  # its values are checked where it is made
        return PretrainRecipe(training, temperature, view, resolve_view(view, view_options), float(str(withheld)))


def resolve_view(name: str, given: Option) -> dict[str, Option]:
    """The options of a view; the view is called once on blank rows, so that it checks their values."""
    entry = get("views", name)
    options = resolved(f"view {name!r}", keywords(entry.function), given, kinds=get_type_hints(entry.function))
    blank = torch.zeros(2, 1, 32, 32) if "image" in entry.inputs else torch.zeros(2, 4)
    view_of(name, options)(blank, torch.Generator())
    return options


def view_of(name: str, options: Options) -> View:
    """The view of a recipe, or of a fine-tuning, with its options."""
    return make_view(name, **from_json(options))
