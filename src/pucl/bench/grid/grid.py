"""Grids: TOML files whose blocks are products of lists; what comes out is a list of cells with every number in them.

```toml
tasks = ["cifar1", "cifar2"]          # keys up here are shared by all blocks
n_labelled = [1000, 3000]
seeds = [0, 1, 2]

[recipe.paper]                        # numbers by name; [recipe.paper.task.fmnist1] changes them for one task
epochs = 300
view = "simclr"

[[block]]                             # pipelines: an encoder by each objective and recipe, tops on each encoder
objectives = ["pucl", "punce"]
encoder = "cnn7"                      # or a table by task
recipes = ["paper"]
tops = ["pupl", "nnpu"]
prior = "oracle"                      # for those that need one; or a table by objective or method

[[block]]                             # baselines
methods = ["nnpu", "vpu"]
prior = "oracle"
```
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pucl.bench.grid.cells import ORACLE, SUPERVISED, TEACHER, Config, key_of, registered, stored_settings
from pucl.bench.grid.options import from_json, resolved, values_of
from pucl.bench.grid.readouts import check_prior, check_teacher, resolve_top
from pucl.bench.grid.recipes import resolve_recipe
from pucl.bench.grid.toml import as_names, as_numbers, as_table, as_tables, read_toml
from pucl.data.pu_split import SETTINGS
from pucl.errors import Described, bad_argument, blamed_on, check_known
from pucl.registry import Entry, entries, get

if TYPE_CHECKING:
    from pucl.baselines import Settings

PLACE = ("tasks", "n_labelled", "setting", "seeds", "encoder", "prior")
SHARED = (*PLACE, "recipes", "tops")
DEFINITIONS = ("recipe", "top", "settings")
PIPELINE, BASELINE = "objectives", "methods"
BLOCK = "block"
LAST_SEED = 2**32 - 1  # of scikit-learn's generators


def read_grid(path: Path) -> list[Config]:
    """The cells of a grid, in its order, each once; whatever is wrong in the file is one error that names it."""
    return Grid(path.name, read_toml("pucl bench", "GRID", path)).cells()


class Grid:
    """The content of a grid file, checked as it is read."""

    def __init__(self, name: str, content: Mapping[str, Any]) -> None:
        self.name = name
        check_known(name, "key", content, (*SHARED, *DEFINITIONS, BLOCK))
        self.defined = {key: as_table(name, key, content.get(key, {})) for key in DEFINITIONS}
        if given := self.defined["settings"]:
            check_known(f"{name}: settings", "baselines", given, _methods())
        shared = {key: value for key, value in content.items() if key in SHARED}
        blocks = as_tables(name, BLOCK, content.get(BLOCK))
        for block in blocks:
            self._check_block(block)
        self.blocks = [{**shared, **block} for block in blocks]
        for block in self.blocks:
            self._check_priors(block.get("prior"))

    def cells(self) -> list[Config]:
        """All cells, in the order of the file."""
        found: dict[str, Config] = {}
        for block in self.blocks:
            made = self._pipelines(block) if PIPELINE in block else self._baselines(block)
            for cell in made:
                found.setdefault(key_of(cell), cell)
        return list(found.values())

    def _places(self, block: Mapping[str, Any]) -> Iterator[Config]:
        """Task, setting, number of labels and seed: what decides who is labelled."""
        tasks = self._names(block, "tasks")
        for task in tasks:
            self._registered("datasets", "tasks", task)
        settings = self._names(block, "setting") if "setting" in block else ["case-control"]
        check_known(self.name, "setting", settings, SETTINGS)
        numbers = as_numbers(self.name, "n_labelled", block.get("n_labelled"), low=1)
        seeds = as_numbers(self.name, "seeds", block.get("seeds"), low=0, high=LAST_SEED)
        for task, setting, n, seed in product(tasks, settings, numbers, seeds):
            yield {"task": task, "setting": setting, "n_labelled": n, "seed": seed}

    def _pipelines(self, block: Mapping[str, Any]) -> Iterator[Config]:
        objectives, recipes = self._names(block, PIPELINE), self._names(block, "recipes")
        tops = self._names(block, "tops")
        made: dict[tuple[str, str, str], list[Config]] = {}  # the same for all seeds and numbers of labels
        for place, objective, recipe in product(list(self._places(block)), objectives, recipes):
            task = place["task"]
            key = (task, objective, recipe)
            if key not in made:
                encoder = str(self._encoder("encoder", block.get("encoder"), task, required=True))
                shared = self._encoder_keys(block, task, objective, encoder, recipe)
                made[key] = [self._with_top(block, task, shared, top) for top in tops]
            yield from ({**place, **pipeline} for pipeline in made[key])

    def _encoder_keys(self, block: Mapping[str, Any], task: str, objective: str, encoder: str, recipe: str) -> Config:
        """What a pipeline says of its encoder."""
        check_known(self.name, "recipe", [recipe], self.defined["recipe"])
        given = as_table(self.name, f"recipe.{recipe}", self.defined["recipe"][recipe])
        needs = self._registered("losses", PIPELINE, objective).needs_prior
        with blamed_on(self.name):
            numbers = resolve_recipe(f"recipe {recipe!r}", given, task)
        return {
            "encoder": encoder,
            "objective": objective,
            "recipe_name": recipe,
            "recipe": numbers,
            "encoder_prior": _prior(block, objective) if needs else None,
        }

    def _with_top(
        self, block: Mapping[str, Any], task: str, shared: Config, name: str, pupils: tuple[str, ...] = ()
    ) -> Config:
        """A pipeline without its place: encoder, top, teacher if it has one, and what all of them are told of π.

        `pupils` are the tops that learn from this one, which can be none of them.
        """
        if name in pupils:
            way = Described(" → ".join((*pupils, name)))
            raise bad_argument(self.name, f"the teacher of top {name!r}", "one that does not learn from itself", way)
        with blamed_on(self.name):
            top = resolve_top(name, self.defined["top"])
        told = [shared["encoder_prior"], top["top_prior"]]
        if top["labeller"] == TEACHER:
            with blamed_on(self.name):
                given = check_teacher(f"top {name!r}", self.defined["top"][name][TEACHER])
            objective = given.get("objective", shared["objective"])
            encoder = str(self._encoder(f"top {name!r}, encoder of the teacher", given["encoder"], task, required=True))
            own = self._encoder_keys(block, task, objective, encoder, given["recipe"])
            top[TEACHER] = self._with_top(block, task, own, given["top"], (*pupils, name))
            told.append(top[TEACHER]["prior"])
        prior = ORACLE if ORACLE in told else next((one for one in told if one is not None), None)
        return {**shared, **top, "prior": prior}

    def _baselines(self, block: Mapping[str, Any]) -> Iterator[Config]:
        from pucl.baselines import settings_of

        methods = self._names(block, BASELINE)
        check_known(f"{self.name}: {BASELINE}", "baselines", methods, _methods())
        made: dict[tuple[str, str], Config] = {}  # the same for all seeds and numbers of labels
        for place, method in product(list(self._places(block)), methods):
            key = (place["task"], method)
            if key not in made:
                needs = get("baselines", registered(method)).needs_prior
                preset = settings_of(registered(method), place["task"])
                encoder = self._encoder("encoder", block.get("encoder"), place["task"]) or preset.encoder
                prior, settings = _prior(block, method) if needs else None, self._settings(method, preset)
                made[key] = {"encoder": encoder, "prior": prior, "method": method, "settings": settings}
            yield {**place, **made[key]}

    def _settings(self, method: str, preset: "Settings") -> Config:
        """The settings of a baseline: what the grid changes, then its preset for the task."""
        from pucl.baselines import renamed_settings

        key = f"settings.{method}"
        given = as_table(self.name, key, self.defined["settings"].get(method, {}))
        with blamed_on(self.name):
            kinds, given = get_type_hints(type(preset)), renamed_settings(key, preset, given)
            settings = stored_settings(resolved(key, values_of(preset), given, kinds=kinds, without=("encoder",)))
            with blamed_on(key):
                replace(preset, **from_json(given))  # its values are checked where it is made
        return settings

    def _encoder(self, key: str, given: Any, task: str, *, required: bool = False) -> str | None:
        value = given
        if isinstance(given, Mapping):
            for name in given:
                self._registered("datasets", key, name)
            value = given.get(task)
        if value is None and not required:
            return None
        if not isinstance(value, str):
            raise bad_argument(self.name, key, f"a name, or a table with one for {task!r}", given)
        return self._registered("encoders", key, value).name

    def _names(self, block: Mapping[str, Any], key: str) -> list[str]:
        return as_names(self.name, key, block.get(key), " in every block or above them")

    def _registered(self, family: str, key: str, name: str) -> Entry:
        """The entry that a key of the grid names."""
        with blamed_on(f"{self.name}: {key}"):
            return get(family, name)

    def _check_block(self, block: Mapping[str, Any]) -> None:
        """A block has pipelines or baselines, and the keys of its kind."""
        kinds = [kind for kind in (PIPELINE, BASELINE) if kind in block]
        known = (*PLACE, BASELINE) if kinds == [BASELINE] else (*SHARED, PIPELINE, BASELINE)
        check_known(f"{self.name}: a [[{BLOCK}]]", "key", block, known)
        if len(kinds) != 1:
            got = Described("both" if kinds else "neither")
            raise bad_argument(self.name, f"a [[{BLOCK}]]", f"one with '{PIPELINE}' or '{BASELINE}'", got)

    def _check_priors(self, given: Any) -> None:
        """What a block says of π, also of those that are told nothing."""
        if isinstance(given, Mapping):
            check_known(f"{self.name}: prior", "objective or method", given, (*entries("losses"), *_methods()))
        for value in given.values() if isinstance(given, Mapping) else [given]:
            check_prior(self.name, value)


def _methods() -> tuple[str, ...]:
    """What a grid may name as a baseline."""
    return *entries("baselines"), SUPERVISED


def _prior(block: Mapping[str, Any], who: str) -> str | None:
    """What an objective or a method is told of π."""
    value = block.get("prior")
    return value.get(who) if isinstance(value, Mapping) else value
