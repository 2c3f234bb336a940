"""Cells: what is measured, as typed values with one canonical form, a key and a name.

A *cell* is one result to measure: a `Pipeline` (an encoder trained by an objective, and a readout on its embeddings) or
a `Baseline`, at a `Place` (task, setting, number of labelled rows, seed). It holds all numbers that decide the result:
a changed number, or a changed default, is another cell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias, TypeGuard, get_type_hints

from pucl.bench.grid.decode import Option, Options, as_table, decode, from_json, resolved, values_of
from pucl.bench.grid.identity import canonical, key_of
from pucl.errors import bad_argument, blamed_on, check_known
from pucl.registry import entries
from pucl.training.config import FREE, TrainConfig

ORACLE, TRUTH, TEACHER = "oracle", "truth", "teacher"
SUPERVISED, ITS_BASELINE = "supervised", "naive"  # with s in place of the truth it is naive
PLAIN = "sscl"  # needs no prior and no label: a prior is estimated on an encoder trained by it
FINE_TUNE, KNN = "finetune", "knn_probe"  # heads that are not registered ones
PU_HEADS = ("nnpu", "upu")  # heads that need no labeller
KNN_OPTIONS: Mapping[str, float] = MappingProxyType({"k": 200, "temperature": 0.1})  # as in the paper, always
NOT_IN_RECIPES = ("seed", *FREE)  # of the place, or without influence on what is computed
OPTIONS, TOLD = "objective_options", "told every label"
OWNER = "a cell"


@dataclass(frozen=True)
class Place:
    """Where a cell is measured: all that decides which rows are labelled.

    Attributes:
        task: a registered data set.
        setting: how P and U were drawn, see `pucl.make_pu`.
        n_labelled: the number of labelled positives.
        seed: of the split and of everything else that is drawn.
    """

    task: str
    setting: str
    n_labelled: int
    seed: int


@dataclass(frozen=True)
class PretrainRecipe:
    """How an encoder is trained, every number written out.

    Attributes:
        training: the optimisation; its seed is that of the place.
        temperature: τ of the objective.
        view: a registered view.
        view_options: of the view.
        withheld: the share of the labelled rows whose labels the encoder does not see.
    """

    training: TrainConfig
    temperature: float
    view: str
    view_options: Options
    withheld: float = 0.0

    def to_dict(self) -> dict[str, Option]:
        """One table, with the values of `training` in it; options that are switched off are left out."""
        options = resolved("recipe", values_of(TrainConfig), _changed(self.training), without=NOT_IN_RECIPES)
        options["temperature"] = self.temperature
        options |= {"withheld": self.withheld} if self.withheld else {}
        return {**options, "view": self.view, "view_options": self.view_options}

    @classmethod
    def from_dict(cls, content: object) -> "PretrainRecipe":
        """What `to_dict` wrote; a value that is missing and not switched off by default is an error."""
        table = dict(as_table(OWNER, "recipe", content))
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
        )


@dataclass(frozen=True)
class Readout:
    """What reads an encoder's embeddings out into a classifier: a labeller with a head, a PU head, or a reference.

    Attributes:
        name: what grids and tables call it.
        labeller: a registered pseudo-labeller, "teacher", "truth", or None for heads that need none.
        labeller_options: its options.
        head: a registered head, "finetune" or "knn_probe".
        head_options: its options.
        prior: what the readout is given of π: nothing, "oracle" or the name of an estimator.
        teacher: the pipeline at the same place that a readout with the labeller "teacher" learns from.
    """

    name: str
    labeller: str | None
    labeller_options: Options
    head: str
    head_options: Options
    prior: str | None = None
    teacher: "Pipeline | None" = None

    def to_dict(self) -> dict[str, Option]:
        """All fields; a teacher without its place."""
        table = {field.name: getattr(self, field.name) for field in fields(self) if field.name != TEACHER}
        return table | ({} if self.teacher is None else {TEACHER: self.teacher.method()})

    @classmethod
    def from_dict(cls, content: object, place: Place) -> "Readout":
        """What `to_dict` wrote."""
        table = dict(as_table(OWNER, "readout", content))
        taught = table.pop(TEACHER, None)
        readout = decode(_PlainReadout, table, owner=OWNER, key="readout")
        teacher = None if taught is None else Pipeline.from_dict({**asdict(place), **as_table(OWNER, TEACHER, taught)})
        return cls(**{field.name: getattr(readout, field.name) for field in fields(readout)}, teacher=teacher)


@dataclass(frozen=True)
class _PlainReadout:
    """A readout without its teacher, as a file holds it."""

    name: str
    labeller: str | None
    labeller_options: dict[str, Option]
    head: str
    head_options: dict[str, Option]
    prior: str | None


@dataclass(frozen=True)
class EncoderCell:
    """All that decides a trained encoder; several pipelines share one."""

    place: Place
    encoder: str
    objective: str
    recipe: PretrainRecipe
    prior: str | None
    objective_options: Options = field(default_factory=dict)

    def to_dict(self) -> dict[str, Option]:
        """One flat table; options of the objective where there are some."""
        own = {"encoder": self.encoder, "objective": self.objective, "recipe": self.recipe.to_dict()}
        return {**asdict(self.place), **own, "prior": self.prior, **_if_any(self.objective_options)}

    @cached_property
    def key(self) -> str:
        """The identity of the encoder."""
        return key_of(self.to_dict())

    def without_labels(self) -> "EncoderCell":
        """The same encoder trained by ssCL, which needs no prior and no label: π is estimated on its embeddings."""
        recipe = replace(self.recipe, withheld=0.0)
        return replace(self, objective=PLAIN, prior=None, recipe=recipe, objective_options={})


@dataclass(frozen=True)
class Pipeline:
    """An encoder trained by an objective with a recipe, and a readout on it.

    Attributes:
        place: task, setting, number of labelled rows, seed.
        encoder: a registered encoder.
        objective: a registered loss.
        recipe_name: what the grid calls the recipe.
        recipe: its numbers.
        encoder_prior: what the objective is given of π: nothing, "oracle" or the name of an estimator.
        readout: what reads the embeddings.
        objective_options: options of the objective that differ from its defaults.
    """

    place: Place
    encoder: str
    objective: str
    recipe_name: str
    recipe: PretrainRecipe
    encoder_prior: str | None
    readout: Readout
    objective_options: Options = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The identity of the result."""
        return key_of(self.to_dict())

    @cached_property
    def prior(self) -> str | None:
        """What the pipeline as a whole, its teacher included, was given of π: nothing, "oracle" or an estimator."""
        teacher = self.readout.teacher
        given = (self.encoder_prior, self.readout.prior, teacher.prior if teacher else None)
        return ORACLE if ORACLE in given else next((name for name in given if name is not None), None)

    @property
    def encoder_cell(self) -> EncoderCell:
        """What decides the encoder; `recipe_name` is only a name for numbers that are all in `recipe`."""
        options = self.objective_options
        return EncoderCell(self.place, self.encoder, self.objective, self.recipe, self.encoder_prior, options)

    @property
    def knows_classes(self) -> bool:
        """Whether the objective learns from the true class of every row."""
        return needs_classes(self.objective)

    @property
    def is_reference(self) -> bool:
        """Whether it sees true labels of training rows, through a teacher too: a ceiling or kNN, not a method."""
        teacher = self.readout.teacher
        own = self.readout.labeller == TRUTH or self.readout.head == KNN or self.knows_classes
        return own or (teacher is not None and teacher.is_reference)

    @property
    def name(self) -> str:
        """One line for people; ``--only`` looks for words in it."""
        more = f", prior {self.prior}" if self.prior else ""
        more += f", {TOLD}" if self.knows_classes else ""
        objective = " ".join((self.objective, *option_words(self.objective_options)))
        return f"{_words(self.place)} {objective}+{self.readout.name} ({self.recipe_name}, {self.encoder}{more})"

    def at(self, place: Place) -> "Pipeline":
        """The same at another place, its teacher too."""
        teacher = self.readout.teacher
        readout = self.readout if teacher is None else replace(self.readout, teacher=teacher.at(place))
        return replace(self, place=place, readout=readout)

    def method(self) -> dict[str, Option]:
        """All but the place, as a table."""
        own = {name: getattr(self, name) for name in ("encoder", "objective", "recipe_name", "encoder_prior")}
        parts = {"recipe": self.recipe.to_dict(), "readout": self.readout.to_dict()}
        return {**own, **parts, **_if_any(self.objective_options)}

    def to_dict(self) -> dict[str, Option]:
        """One table with tables for recipe and readout in it."""
        return {**asdict(self.place), **self.method()}

    @classmethod
    def from_dict(cls, content: object) -> "Pipeline":
        """What `to_dict` wrote; anything else is one error."""
        table = dict(as_table(OWNER, "its configuration", content))
        place = _place(table)
        check_known(OWNER, "key", table, [field.name for field in fields(cls)])
        names = ("encoder", "objective", "recipe_name")
        encoder, objective, recipe_name = (decode(str, table.get(name), owner=OWNER, key=name) for name in names)
        prior = table.get("encoder_prior")
        if not (prior is None or isinstance(prior, str)):
            raise bad_argument(OWNER, "encoder_prior", "a name", prior)
        recipe = PretrainRecipe.from_dict(table.get("recipe"))
        readout = Readout.from_dict(table.get("readout"), place)
        options = as_table(OWNER, OPTIONS, table.get(OPTIONS, {}))
        return cls(place, encoder, objective, recipe_name, recipe, prior, readout, options)


@dataclass(frozen=True)
class Baseline:
    """A published or simple method on the raw rows.

    Attributes:
        place: task, setting, number of labelled rows, seed.
        method: a registered baseline, or "supervised", a reference: the network of `naive` on the true labels.
        encoder: a registered encoder; None for the method's own.
        prior: what it is given of π: nothing, "oracle" or the name of an estimator.
        settings: every number.
    """

    place: Place
    method: str
    encoder: str | None
    prior: str | None
    settings: Options

    @cached_property
    def key(self) -> str:
        """The identity of the result."""
        return key_of(self.to_dict())

    @property
    def registered(self) -> str:
        """The registered baseline whose code, settings and needs the method has."""
        return ITS_BASELINE if self.method == SUPERVISED else self.method

    @property
    def is_reference(self) -> bool:
        """Whether it sees the true labels of the training rows."""
        return self.method == SUPERVISED

    @property
    def name(self) -> str:
        """One line for people; ``--only`` looks for words in it."""
        prior = f", prior {self.prior}" if self.prior else ""
        return f"{_words(self.place)} {self.method} ({self.encoder or 'own encoder'}{prior})"

    def to_dict(self) -> dict[str, Option]:
        """One table."""
        own = {name: getattr(self, name) for name in ("encoder", "prior", "method", "settings")}
        return {**asdict(self.place), **own}

    @classmethod
    def from_dict(cls, content: object) -> "Baseline":
        """What `to_dict` wrote; anything else is one error."""
        table = dict(as_table(OWNER, "its configuration", content))
        place = _place(table)
        return cls(place, **asdict(decode(_PlainBaseline, table, owner=OWNER)))


@dataclass(frozen=True)
class _PlainBaseline:
    """A baseline without its place, as a file holds it."""

    method: str
    encoder: str | None
    prior: str | None
    settings: dict[str, Option]


Cell: TypeAlias = Pipeline | Baseline


def cell_from(content: object) -> Cell:
    """The cell that a table describes, or one error."""
    table = as_table(OWNER, "its configuration", content)
    return Baseline.from_dict(table) if "method" in table else Pipeline.from_dict(table)


def variant_of(cell: Cell) -> str:
    """The configuration without its seed: what results are averaged over."""
    return canonical({key: value for key, value in cell.to_dict().items() if key != "seed"})


def needs_classes(objective: str) -> bool:
    """Whether an objective learns from the true class of every row; not known of one that is not registered here."""
    entry = entries("losses").get(objective)
    return entry is not None and entry.needs_classes


def option_words(options: Options) -> list[str]:
    """Options for people: ``mixing=0.3``."""
    return [f"{name}={value}" for name, value in options.items()]


def is_estimated(prior: str | None) -> TypeGuard[str]:
    """Whether this names an estimator of π, and not nothing or the true one."""
    return prior not in (None, ORACLE)


def usual_setting(task: str) -> str:
    """The setting of a task in the paper, and the default."""
    return "single-set" if task.startswith("stl") else "case-control"


def units(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Groups of cells that share an encoder, and each baseline alone, in the order in which they first occur."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        key = cell.key if isinstance(cell, Baseline) else cell.encoder_cell.key
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _if_any(options: Options) -> dict[str, Option]:
    """The options of an objective as a part of a table, which without any has no such key."""
    return {OPTIONS: dict(options)} if options else {}


def _place(table: dict[str, Option]) -> Place:
    """The place in a table, which is taken out of it."""
    own = {field.name: table.pop(field.name, None) for field in fields(Place)}
    with blamed_on(OWNER):
        return decode(Place, own, owner="place")


def _words(place: Place) -> str:
    return f"{place.task} {place.n_labelled} seed {place.seed}"


def _changed(config: TrainConfig) -> Options:
    return {name: value for name, value in values_of(config).items() if name not in NOT_IN_RECIPES}
