"""Grids: TOML files whose blocks are products of lists; what comes out is a list of cells with every number in them.

```toml
tasks = ["cifar1", "cifar2"]          # keys up here are shared by all blocks
n_labelled = [1000, 3000]
seeds = [0, 1, 2]

[recipe.paper]                        # numbers by name; [recipe.paper.task.fmnist1] changes them for one task
epochs = 300
view = "simclr"

[recipe.frozen]                       # an encoder with published weights as it is; objectives = "none"
tune = "frozen"                       # or "head": a projection of its vectors is trained; "all" otherwise

[[block]]                             # pipelines: an encoder by each objective and recipe, readouts on each encoder
objectives = ["pucl", "punce"]
encoder = "cnn7"                      # or a table by task
recipes = ["paper"]
readouts = ["pupl", "nnpu"]
prior = "oracle"                      # for those that need one; or a table by objective or method
objective_options = { punce = { variant = ["paper", "released"] } }  # a list: each of them
n_unlabelled = [5000, 20000]          # what an ablation varies, a value or a list: see `Places`
prior_error = [-0.2, 0.0, 0.2]        # "oracle" is then (1 + ε) π
knn_every = 20                        # kNN on the true labels after every 20 epochs, a cell each

[[block]]                             # baselines
methods = ["nnpu", "vpu"]
prior = "oracle"

[[block]]                             # texts: encoders of texts stay as they are; logistic regression on TF-IDF
tasks = "news1"
methods = ["naive", "supervised"]
encoder = "tfidf"
```
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from pucl.bench.grid import renames
from pucl.bench.grid.cells import (
    EPOCH,
    ITS_BASELINE,
    OPTIONS,
    ORACLE,
    PRIOR_ERROR,
    SUPERVISED,
    TEACHER,
    TFIDF,
    TUNING,
    UNTRAINED,
    Baseline,
    Cell,
    Pipeline,
    Readout,
    has_weights,
    needs_classes,
    reads_texts,
)
from pucl.bench.grid.decode import (
    Option,
    Options,
    as_table,
    as_tables,
    counts,
    decode,
    from_json,
    one_or_more,
    one_or_several,
    read_toml,
    resolved,
    values_of,
)
from pucl.bench.grid.objectives import option_sets
from pucl.bench.grid.place import RANDOM, USUAL, Place, check_place
from pucl.bench.grid.readouts import KNN_READOUT, check_own_names, check_prior, read_teacher, resolve_readout
from pucl.bench.grid.recipes import ALL, FROZEN, TUNE, PretrainRecipe, resolve_recipe
from pucl.data.pu_split import SETTINGS
from pucl.deprecation import with_new_names
from pucl.errors import Described, bad_argument, blamed_on, check_known, is_number
from pucl.registry import Entry, entries, get

if TYPE_CHECKING:
    from pucl.baselines import Settings

KNN_EVERY = "knn_every"
PLACE = ("tasks", "n_labelled", "setting", "seeds", *USUAL, "encoder", "prior", PRIOR_ERROR)
SHARED = (*PLACE, "recipes", "readouts", OPTIONS, KNN_EVERY)
DEFINITIONS = ("recipe", "readout", "settings")
PIPELINE, BASELINE = "objectives", "methods"
BLOCK = "block"
NONE: Options = MappingProxyType({})
LAST_SEED = 2**32 - 1  # of scikit-learn's generators

MOST = 100_000  # cells of a block, or places of one

C = TypeVar("C", Pipeline, Baseline)
T = TypeVar("T")

names = one_or_more(" in every block or above them")
Names = Annotated[list[str], names]


def _error(owner: str, key: str, value: Any) -> float:
    if not is_number(value) or value <= -1:
        raise bad_argument(owner, key, "a number > -1: a method is given (1 + it) times the true prior", value)
    return float(value)


def _given(_owner: str, _key: str, value: Any) -> Any:
    return value  # checked with the place it makes


@dataclass(frozen=True)
class Places:
    """The part of a block that says where its cells are measured: one value or a list of each."""

    tasks: Names
    n_labelled: Annotated[list[int], counts(low=1)]
    seeds: Annotated[list[int], counts(low=0, high=LAST_SEED)]
    setting: Names
    n_unlabelled: Annotated[list[int | None], one_or_several(_given)]
    true_prior: Annotated[list[float | None], one_or_several(_given)]
    labelled: Annotated[list[str], one_or_several(_given)]

    def product(self) -> Iterator[Place]:
        """Every place, tasks first."""
        draws = list(product(self.n_unlabelled, self.true_prior, self.labelled))
        for task, setting, n, draw, seed in product(self.tasks, self.setting, self.n_labelled, draws, self.seeds):
            yield Place(task, setting, n, seed, *draw)


@dataclass(frozen=True)
class Pipelines:
    """The part of a block that says which pipelines it has."""

    objectives: Names
    recipes: Names
    readouts: Names


def read_grid(path: Path) -> list[Cell]:
    """The cells of a grid, in its order, each once; whatever is wrong in the file is one error that names it."""
    return Grid(path.name, read_toml("pucl bench", "GRID", path)).cells()


class Grid:
    """The content of a grid file, checked as it is read."""

    def __init__(self, name: str, content: Options) -> None:
        self.name = name
        content = with_new_names(name, content, renames.GRID)
        check_known(name, "key", content, (*SHARED, *DEFINITIONS, BLOCK))
        self.defined = {key: as_table(name, key, content.get(key, {})) for key in DEFINITIONS}
        check_own_names(name, self.defined["readout"])
        if settings := self.defined["settings"]:
            check_known(f"{name}: settings", "baselines", settings, _methods())
        shared = {key: value for key, value in content.items() if key in SHARED}
        blocks = [with_new_names(name, block, renames.GRID) for block in as_tables(name, BLOCK, content.get(BLOCK))]
        for block in blocks:
            self._check_block(block)
        self.blocks = [{**shared, **block} for block in blocks]
        for block in self.blocks:
            self._check_priors(block.get("prior"))

    def cells(self) -> list[Cell]:
        """All cells, in the order of the file."""
        cells: dict[str, Cell] = {}
        for block in self.blocks:
            made: Iterator[Cell] = self._pipelines(block) if PIPELINE in block else self._baselines(block)
            own = self._few(made)
            for cell in own:
                cells.setdefault(cell.key, cell)
            if block.get(PRIOR_ERROR) is not None and not any(cell.prior == ORACLE for cell in own):
                allowed = "left out of a block none of whose cells is given the true prior"
                raise bad_argument(self.name, PRIOR_ERROR, allowed, block[PRIOR_ERROR])
        return list(cells.values())

    def _few(self, made: Iterable[T]) -> list[T]:
        """What a block makes, refused where it is more than anybody can mean."""
        listed = list(islice(made, MOST + 1))
        if len(listed) > MOST:
            raise bad_argument(self.name, f"a [[{BLOCK}]]", f"one of at most {MOST:,} cells", Described("more"))
        return listed

    def _places(self, block: Options) -> list[Place]:
        """Task, setting, number of labels and seed: what decides who is labelled."""
        given = {key: block.get(key) for key in ("tasks", "n_labelled", "seeds", *USUAL)}
        usual = {"setting": block.get("setting", "case-control"), "labelled": block.get("labelled", RANDOM)}
        places = decode(Places, {**given, **usual}, owner=self.name)
        for task in places.tasks:
            self._registered("datasets", "tasks", task)
        check_known(self.name, "setting", places.setting, SETTINGS)
        made = self._few(places.product())
        for place in made:
            check_place(self.name, place)
        return made

    def _pipelines(self, block: Options) -> Iterator[Pipeline]:
        given = decode(Pipelines, {key: block.get(key) for key in (PIPELINE, "recipes", "readouts")}, owner=self.name)
        made: dict[tuple[str, str, str], list[Pipeline]] = {}  # the same for all seeds and numbers of labels
        options = option_sets(self.name, given.objectives, block.get(OPTIONS, {}))
        for place, objective, recipe in product(self._places(block), given.objectives, given.recipes):
            key = (place.task, objective, recipe)
            if key not in made:
                encoder = str(self._encoder("encoder", block.get("encoder"), place.task, required=True))
                make = partial(self._pipeline, block, place, objective, encoder, recipe)
                own = [make(readout, options=some) for some, readout in product(options[objective], given.readouts)]
                made[key] = self._varied(block, [*own, *self._few(self._over_epochs(block, own))])
            yield from (pipeline.at(place) for pipeline in made[key])

    def _over_epochs(self, block: Options, pipelines: list[Pipeline]) -> Iterator[Pipeline]:
        """Nearest neighbours on the encoders of some pipelines, after every k epochs and after the last."""
        if block.get(KNN_EVERY) is None:
            return
        for pipeline in {cell.encoder_cell.key: cell for cell in pipelines}.values():
            if pipeline.recipe.tune != ALL:
                allowed = f"left out with recipes of {TUNE} = {pipeline.recipe.tune!r}"
                raise bad_argument(self.name, KNN_EVERY, allowed, block[KNN_EVERY])
            last, plain = pipeline.recipe.training.epochs, resolve_readout(KNN_READOUT, {})
            yield replace(pipeline, readout=plain)
            for every in counts(low=1, high=last)(self.name, KNN_EVERY, block[KNN_EVERY]):
                for epoch in range(every, last, every):
                    yield replace(pipeline, readout=replace(plain, head_options={**plain.head_options, EPOCH: epoch}))

    def _varied(self, block: Options, cells: list[C]) -> list[C]:
        """Cells with every error of the true prior that the block asks for; those that are not given it once."""
        if block.get(PRIOR_ERROR) is None:
            return cells
        errors = one_or_several(_error)(self.name, PRIOR_ERROR, block[PRIOR_ERROR])
        return [cell.with_prior_error(error) for cell in cells for error in (errors if cell.prior == ORACLE else [0.0])]

    def _pipeline(
        self, block: Options, place: Place, objective: str, encoder: str, recipe: str, readout: str,
        pupils: tuple[str, ...] = (), options: Options = NONE,
    ) -> Pipeline:  # fmt: skip
        """One pipeline with its readout, and the teacher of that, if it has one.

        `pupils` are the readouts that learn from this one; it must not be one of them.
        """
        if readout in pupils:
            cycle = Described(" → ".join((*pupils, readout)))
            owner = f"the teacher of readout {readout!r}"
            raise bad_argument(self.name, owner, "one that does not learn from itself", cycle)
        with blamed_on(self.name):
            plain = resolve_readout(readout, self.defined["readout"])
        needs_prior = objective != UNTRAINED and self._registered("losses", PIPELINE, objective).needs_prior
        check_known(self.name, "recipe", [recipe], self.defined["recipe"])
        described = as_table(self.name, f"recipe.{recipe}", self.defined["recipe"][recipe])
        with blamed_on(self.name):
            numbers = resolve_recipe(f"recipe {recipe!r}", described, place.task)
        self._check_tuning(encoder, objective, numbers, plain)
        if numbers.withheld and needs_classes(objective):
            raise bad_argument(self.name, "withheld", f"left out with {objective!r}, which sees all", numbers.withheld)
        prior = _prior(block, objective) if needs_prior else None
        cell = Pipeline(place, encoder, objective, recipe, numbers, prior, plain, options)
        if plain.labeller != TEACHER:
            return cell
        owner = f"readout {readout!r}"
        with blamed_on(self.name):
            own = as_table(owner, "its description", self.defined["readout"][readout])
            table = read_teacher(owner, own[TEACHER])
        its_encoder = self._encoder(f"{owner}, encoder of the teacher", table.encoder, place.task, required=True)
        teacher = self._pipeline(
            block, place, table.objective or objective, str(its_encoder), table.recipe, table.readout,
            (*pupils, readout), options if table.objective in (None, objective) else NONE,
        )  # fmt: skip
        return replace(cell, readout=replace(plain, teacher=teacher))

    def _check_tuning(self, encoder: str, objective: str, recipe: PretrainRecipe, readout: Readout) -> None:
        """Refuse what does not go with how far an encoder with published weights is tuned."""
        if (recipe.tune == FROZEN) != (objective == UNTRAINED):
            allowed = f"{UNTRAINED!r} with a recipe of {TUNE} = {FROZEN!r}, and with no other"
            raise bad_argument(self.name, PIPELINE, allowed, objective)
        if encoder == TFIDF:
            raise bad_argument(self.name, "encoder", f"another in a block with '{PIPELINE}'", encoder)
        if recipe.tune != ALL and not (has_weights(encoder) or reads_texts(encoder)):
            known = ", ".join(repr(name) for name in entries("encoders") if has_weights(name))
            allowed = f"one with published weights ({known}) where {TUNE} is {recipe.tune!r}"
            raise bad_argument(self.name, "encoder", allowed, encoder)
        if recipe.tune != FROZEN and reads_texts(encoder):
            raise bad_argument(self.name, TUNE, f"{FROZEN!r} for the encoder of texts {encoder!r}", recipe.tune)
        if recipe.tune != ALL and readout.head in TUNING:
            allowed = f"one that leaves the encoder as it is where {TUNE} is {recipe.tune!r}"
            raise bad_argument(self.name, "readouts", allowed, readout.name)

    def _baselines(self, block: Options) -> Iterator[Baseline]:
        from pucl.baselines import settings_of

        methods = names(self.name, BASELINE, block.get(BASELINE))
        check_known(f"{self.name}: {BASELINE}", "baselines", methods, _methods())
        made: dict[tuple[str, str], list[Baseline]] = {}  # the same for all seeds and numbers of labels
        for place, method in product(self._places(block), methods):
            key = (place.task, method)
            if key not in made:
                entry = get("baselines", ITS_BASELINE if method == SUPERVISED else method)
                preset = settings_of(entry.name, place.task)
                encoder = self._encoder("encoder", block.get("encoder"), place.task) or preset.encoder
                prior = _prior(block, method) if entry.needs_prior else None
                if encoder == TFIDF and entry.name != ITS_BASELINE:
                    allowed = f"{ITS_BASELINE!r} or {SUPERVISED!r} with the encoder {TFIDF!r}"
                    raise bad_argument(self.name, BASELINE, allowed, method)
                cell = Baseline(place, method, encoder, prior, self._settings(method, preset))
                made[key] = self._varied(block, [cell])
            yield from (replace(cell, place=place) for cell in made[key])

    def _settings(self, method: str, preset: "Settings") -> Options:
        """The settings of a baseline: what the grid changes, then its preset for the task."""
        from pucl.baselines import renamed_settings

        key = f"settings.{method}"
        given = as_table(self.name, key, self.defined["settings"].get(method, {}))
        with blamed_on(self.name):
            kinds, given = get_type_hints(type(preset)), renamed_settings(key, preset, given)
            settings = resolved(key, values_of(preset), given, kinds=kinds, without=("encoder",))
            with blamed_on(key):
                replace(preset, **from_json(given))  # its values are checked where it is made
        return settings

    def _encoder(self, key: str, given: Option, task: str, *, required: bool = False) -> str | None:
        value = given
        if isinstance(given, Mapping):
            for name in given:
                self._registered("datasets", key, name)
            value = given.get(task)
        if value is None and not required:
            return None
        if not isinstance(value, str):
            raise bad_argument(self.name, key, f"a name, or a table with one for {task!r}", given)
        if value == TFIDF or reads_texts(value):
            return value
        return self._registered("encoders", key, value).name

    def _registered(self, family: str, key: str, name: str) -> Entry:
        """The entry that a key of the grid names."""
        with blamed_on(f"{self.name}: {key}"):
            return get(family, name)

    def _check_block(self, block: Options) -> None:
        """A block has pipelines or baselines, and the keys of its kind."""
        kinds = [kind for kind in (PIPELINE, BASELINE) if kind in block]
        known = (*PLACE, BASELINE) if kinds == [BASELINE] else (*SHARED, PIPELINE, BASELINE)
        check_known(f"{self.name}: a [[{BLOCK}]]", "key", block, known)
        if len(kinds) != 1:
            got = Described("both" if kinds else "neither")
            raise bad_argument(self.name, f"a [[{BLOCK}]]", f"one with '{PIPELINE}' or '{BASELINE}'", got)

    def _check_priors(self, given: Option) -> None:
        """What a block says of π, also for those that need none."""
        if isinstance(given, Mapping):
            check_known(f"{self.name}: prior", "objective or method", given, (*entries("losses"), *_methods()))
        for value in given.values() if isinstance(given, Mapping) else [given]:
            check_prior(self.name, value)


def _methods() -> tuple[str, ...]:
    """What a grid may name as a baseline."""
    return *entries("baselines"), SUPERVISED


def _prior(block: Options, who: str) -> str | None:
    """What an objective or a method is given of π."""
    value = block.get("prior")
    name = value.get(who) if isinstance(value, Mapping) else value
    return None if name is None else str(name)
