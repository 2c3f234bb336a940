"""Recipes: how an encoder is trained, by name in a grid, with every number written out in a cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_type_hints

import torch

from pucl.bench.grid.decode import Option, Options, as_table, decode, from_json, keywords, resolved, values_of
from pucl.bench.grid.place import OWNER
from pucl.errors import bad_argument, blamed_on, check_known, check_positive, check_share
from pucl.registry import get
from pucl.training.config import FREE, TrainConfig
from pucl.views import View, make_view

TASK, VIEW, VIEW_OPTIONS = "task", "view", "view_options"
VIEWS = (VIEW, "strong_view")  # options of fine-tuning that are views, each with one for its own options
TEMPERATURE, WITHHELD, TUNE = "temperature", "withheld", "tune"
# How far an encoder with published weights is tuned: not at all, a projection of its vectors, the network itself.
FROZEN, HEAD, ALL = TUNINGS = ("frozen", "head", "all")
NOT_IN_RECIPES = ("seed", *FREE)  # of the place, or without influence on what is computed


@dataclass(frozen=True)
class PretrainRecipe:
    """How an encoder is trained, every number written out.

    Attributes:
        training: the optimisation; its seed is that of the place.
        temperature: τ of the objective.
        view: a registered view.
        view_options: of the view.
        withheld: the share of the labelled rows whose labels the encoder does not see.
        tune: how far an encoder with published weights is tuned; one that is frozen has no other numbers.
    """

    training: TrainConfig
    temperature: float
    view: str
    view_options: Options
    withheld: float = 0.0
    tune: str = ALL

    def to_dict(self) -> dict[str, Option]:
        """One table, with the values of `training` in it; options that are switched off are left out."""
        if self.tune == FROZEN:
            return {TUNE: FROZEN}
        options = resolved("recipe", values_of(TrainConfig), _changed(self.training), without=NOT_IN_RECIPES)
        options["temperature"] = self.temperature
        options |= {"withheld": self.withheld} if self.withheld else {}
        options |= {TUNE: self.tune} if self.tune != ALL else {}
        return {**options, "view": self.view, "view_options": self.view_options}

    @classmethod
    def from_dict(cls, content: object) -> "PretrainRecipe":
        """What `to_dict` wrote; a value that is missing and not switched off by default is an error."""
        table = dict(as_table(OWNER, "recipe", content))
        tune = check_tune(OWNER, table.pop(TUNE, ALL))
        if tune == FROZEN:
            check_known(f"{OWNER}: recipe", "key", table, (TUNE,))
            return FROZEN_RECIPE
        own = {name: table.pop(name, None) for name in ("temperature", "view", "view_options")}
        withheld = decode(float, table.pop("withheld", 0.0), owner=OWNER, key="withheld")
        written = resolved("recipe", values_of(TrainConfig), {}, without=NOT_IN_RECIPES)
        for name in written:
            if name not in table:
                raise bad_argument(OWNER, f"{name} of its recipe", "given", None)
        kinds = get_type_hints(TrainConfig)
        given = resolved("recipe", values_of(TrainConfig), table, kinds=kinds, without=NOT_IN_RECIPES)
        return cls(
            TrainConfig(**from_json(given)),
            decode(float, own["temperature"], owner=OWNER, key="temperature"),
            decode(str, own["view"], owner=OWNER, key="view"),
            as_table(OWNER, "view_options", own["view_options"]),
            withheld,
            tune,
        )


FROZEN_RECIPE = PretrainRecipe(TrainConfig(), 0.5, "", {}, tune=FROZEN)  # nothing is trained: no number counts


def check_tune(owner: str, value: object) -> str:
    """One of `TUNINGS`."""
    if value not in TUNINGS:
        raise bad_argument(owner, TUNE, f"one of {', '.join(map(repr, TUNINGS))}", value)
    return str(value)


def resolve_recipe(owner: str, given: Options, task: str) -> PretrainRecipe:
    """The recipe of a grid for one task: values under ``task.NAME`` go before those for all tasks, and defaults last.

    Its options are those of `TrainConfig`, `temperature`, `view` (which has to be given), `view_options`, and the share
    `withheld` of the labelled rows whose labels the encoder does not see: these represent the positives inside U.
    `tune` says how far an encoder with published weights is tuned; a recipe that leaves it frozen has no other option.
    """
    special = given.get(TASK, {})
    if not isinstance(special, Mapping) or not all(isinstance(table, Mapping) for table in special.values()):
        raise bad_argument(owner, TASK, "tables by the name of a task", special)
    for name in special:
        with blamed_on(f"{owner}: {TASK}"):
            get("datasets", name)
    merged = {**given, **as_table(owner, TASK, special.get(task, {}))}
    merged.pop(TASK, None)
    tune = check_tune(owner, merged.pop(TUNE, ALL))
    if tune == FROZEN:
        for name, value in merged.items():
            raise bad_argument(owner, name, f"left out with {TUNE} = {FROZEN!r}, which trains nothing", value)
        return FROZEN_RECIPE
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
        seen = resolve_view(view, view_options)
        return PretrainRecipe(training, temperature, view, seen, float(str(withheld)), tune)


def options_of(view: str) -> str:
    """What the options of a view are called that an option of fine-tuning names."""
    return f"{view}_options"


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


def _changed(config: TrainConfig) -> Options:
    return {name: value for name, value in values_of(config).items() if name not in NOT_IN_RECIPES}
