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
from itertools import product
from pathlib import Path
from typing import Any

from pucl.bench.cells import ORACLE, TEACHER, Config, key_of, registered
from pucl.bench.options import resolved, values_of
from pucl.bench.recipes import resolve_recipe
from pucl.bench.toml import read_toml
from pucl.bench.tops import check_prior, check_teacher, resolve_top
from pucl.data.pu_split import SETTINGS
from pucl.errors import Described, bad_argument, check_count, unknown_name
from pucl.registry import get

PLACE = ("tasks", "n_labelled", "setting", "seeds", "encoder", "prior")
SHARED = (*PLACE, "recipes", "tops")
DEFINITIONS = ("recipe", "top", "settings")
PIPELINE, BASELINE = "objectives", "methods"
BLOCK = "block"


def read_grid(path: Path) -> list[Config]:
    """The cells of a grid, in its order, each once; whatever is wrong in the file is one error that names it."""
    return Grid(path.name, read_toml("pucl bench", "GRID", path)).cells()


class Grid:
    """The content of a grid file, checked as it is read."""

    def __init__(self, name: str, content: Mapping[str, Any]) -> None:
        self.name = name
        self._check_keys(f"key of {name}", content, (*SHARED, *DEFINITIONS, BLOCK))
        self.defined = {key: self._table(key, content.get(key, {})) for key in DEFINITIONS}
        shared = {key: value for key, value in content.items() if key in SHARED}
        blocks = content.get(BLOCK, [])
        if not isinstance(blocks, list) or not blocks or not all(isinstance(block, Mapping) for block in blocks):
            raise bad_argument(name, f"[[{BLOCK}]]", "given at least once", Described("none"))
        for block in blocks:
            known = (*PLACE, BASELINE) if BASELINE in block else (*SHARED, PIPELINE, BASELINE)
            self._check_keys(f"key of a block of {name}", block, known)
            if PIPELINE not in block and BASELINE not in block:
                allowed = f"one with '{PIPELINE}' or '{BASELINE}'"
                raise bad_argument(name, f"a [[{BLOCK}]]", allowed, Described("neither"))
        self.blocks = [{**shared, **block} for block in blocks]

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
            get("datasets", task)
        settings = self._names(block, "setting") if "setting" in block else ["case-control"]
        for setting in settings:
            if setting not in SETTINGS:
                raise unknown_name(f"setting of {self.name}", setting, SETTINGS)
        numbers, seeds = self._numbers(block, "n_labelled", low=1), self._numbers(block, "seeds", low=0)
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
                encoder = str(self._encoder(block, task, required=True))
                shared = self._encoder_keys(block, task, objective, encoder, recipe)
                made[key] = [self._with_top(block, task, shared, top) for top in tops]
            yield from ({**place, **pipeline} for pipeline in made[key])

    def _encoder_keys(self, block: Mapping[str, Any], task: str, objective: str, encoder: str, recipe: str) -> Config:
        """What a pipeline says of its encoder."""
        if recipe not in self.defined["recipe"]:
            raise unknown_name(f"recipe of {self.name}", recipe, self.defined["recipe"])
        needs = get("losses", objective).needs_prior
        return {
            "encoder": get("encoders", encoder).name,
            "objective": objective,
            "recipe_name": recipe,
            "recipe": resolve_recipe(f"recipe {recipe!r}", self.defined["recipe"][recipe], task),
            "encoder_prior": self._prior(block, objective) if needs else None,
        }

    def _with_top(self, block: Mapping[str, Any], task: str, shared: Config, name: str) -> Config:
        """A pipeline without its place: encoder, top, teacher if it has one, and what all of them are told of π."""
        top = resolve_top(name, self.defined["top"])
        told = [shared["encoder_prior"], top["top_prior"]]
        if top["labeller"] == TEACHER:
            given = check_teacher(f"top {name!r}", self.defined["top"][name][TEACHER])
            objective = given.get("objective", shared["objective"])
            encoder = str(self._encoder(given, task, required=True))
            own = self._encoder_keys(block, task, objective, encoder, given["recipe"])
            top[TEACHER] = self._with_top(block, task, own, given["top"])
            told.append(top[TEACHER]["prior"])
        prior = ORACLE if ORACLE in told else next((one for one in told if one is not None), None)
        return {**shared, **top, "prior": prior}

    def _baselines(self, block: Mapping[str, Any]) -> Iterator[Config]:
        from pucl.baselines import settings_of

        for place, method in product(list(self._places(block)), self._names(block, BASELINE)):
            needs = get("baselines", registered(method)).needs_prior
            known = values_of(settings_of(registered(method), place["task"]))
            encoder = self._encoder(block, place["task"]) or known["encoder"]
            given = self._table(f"settings.{method}", self.defined["settings"].get(method, {}))
            settings = resolved(f"baseline {method!r}", known, given, without=("encoder",))
            prior = self._prior(block, method) if needs else None
            yield {**place, "encoder": encoder, "prior": prior, "method": method, "settings": settings}

    def _encoder(self, block: Mapping[str, Any], task: str, *, required: bool = False) -> str | None:
        value = block.get("encoder")
        if isinstance(value, Mapping):
            for name in value:
                get("datasets", name)
            value = value.get(task)
        if value is None and not required:
            return None
        if not isinstance(value, str):
            raise bad_argument(self.name, "encoder", f"a name, or a table with one for {task!r}", block.get("encoder"))
        return get("encoders", value).name

    def _prior(self, block: Mapping[str, Any], who: str) -> str | None:
        value = block.get("prior")
        return check_prior(self.name, value.get(who) if isinstance(value, Mapping) else value)

    def _names(self, block: Mapping[str, Any], key: str) -> list[str]:
        value = block.get(key)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not values or not all(isinstance(one, str) for one in values):
            raise bad_argument(self.name, key, "a name or a list of names in every block or above them", value)
        return values

    def _numbers(self, block: Mapping[str, Any], key: str, *, low: int) -> list[int]:
        value = block.get(key)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise bad_argument(self.name, key, "a list of whole numbers", value)
        return [check_count(self.name, key, one, low=low) for one in values]

    def _table(self, key: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise bad_argument(self.name, key, "a table", value)
        return value

    def _check_keys(self, what: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                raise unknown_name(what, key, known)
