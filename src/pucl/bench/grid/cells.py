"""Cells: what is measured, as typed values with one canonical form, a key and a name.

A *cell* is one result to measure: a `Pipeline` (an encoder trained by an objective, and a readout on its embeddings) or
a `Baseline`, at a `Place` (task, setting, number of labelled rows, seed). It holds all numbers that decide the result:
a changed number, or a changed default, is another cell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias, TypeGuard

from pucl.bench.grid.decode import Option, Options, as_table, decode
from pucl.bench.grid.identity import canonical, key_of
from pucl.bench.grid.place import OWNER, Place
from pucl.bench.grid.recipes import PretrainRecipe
from pucl.errors import bad_argument, check_known
from pucl.registry import entries
from pucl.texts import FAMILY as TEXT_ENCODERS

ORACLE, TRUTH, TEACHER = "oracle", "truth", "teacher"
SUPERVISED, ITS_BASELINE = "supervised", "naive"  # with s in place of the truth it is naive
UNTRAINED = "none"  # in place of an objective, where an encoder with published weights stays as it is
PLAIN = "sscl"  # needs no prior and no label: a prior is estimated on an encoder trained by it
TFIDF = "tfidf"  # in place of an encoder, for baselines that are a logistic regression on texts
FINE_TUNE, MOMENTUM, KNN, BY_BASELINE = "finetune", "momentum", "knn_probe", "baseline"  # heads not registered as such
TUNING = (FINE_TUNE, MOMENTUM)  # those that train the encoder too
PU_HEADS = ("nnpu", "upu")  # heads that need no labeller
KNN_OPTIONS: Mapping[str, float] = MappingProxyType({"k": 200, "temperature": 0.1})  # as in the paper, always
OPTIONS, TOLD = "objective_options", "told every label"
PRIOR_ERROR, EPOCH = "prior_error", "epoch"  # keys that are there only where they are not 0 or the last


@dataclass(frozen=True)
class Readout:
    """What reads an encoder's embeddings out into a classifier: a labeller with a head, a PU head, or a reference.

    Attributes:
        name: what grids and tables call it.
        labeller: a registered pseudo-labeller, "teacher", "truth", or None for heads that need none.
        labeller_options: its options.
        head: a registered head, "finetune", "momentum", "knn_probe", or "baseline": one of those on the embeddings.
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
        teacher = (
            None if taught is None else Pipeline.from_dict({**place.to_dict(), **as_table(OWNER, TEACHER, taught)})
        )
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
    prior_error: float = 0.0

    def to_dict(self) -> dict[str, Option]:
        """One flat table; options of the objective and an error of the prior where there are some."""
        own: Options = {"encoder": self.encoder, "objective": self.objective, "recipe": self.recipe.to_dict()}
        return {**self.place.to_dict(), **own, "prior": self.prior, **_if_any(self.objective_options, self.prior_error)}

    @cached_property
    def key(self) -> str:
        """The identity of the encoder."""
        return key_of(self.to_dict())

    def without_labels(self) -> "EncoderCell":
        """The same encoder trained by ssCL, which needs no prior and no label: π is estimated on its embeddings."""
        recipe = replace(self.recipe, withheld=0.0)
        return replace(self, objective=PLAIN, prior=None, recipe=recipe, objective_options={}, prior_error=0.0)


@dataclass(frozen=True)
class Pipeline:
    """An encoder trained by an objective with a recipe, and a readout on it.

    Attributes:
        place: task, setting, number of labelled rows, seed.
        encoder: a registered encoder.
        objective: a registered loss, or "none" for an encoder that is not trained.
        recipe_name: what the grid calls the recipe.
        recipe: its numbers.
        encoder_prior: what the objective is given of π: nothing, "oracle" or the name of an estimator.
        readout: what reads the embeddings.
        objective_options: options of the objective that differ from its defaults.
        prior_error: ε, where "oracle" stands for (1 + ε) times the true π.
    """

    place: Place
    encoder: str
    objective: str
    recipe_name: str
    recipe: PretrainRecipe
    encoder_prior: str | None
    readout: Readout
    objective_options: Options = field(default_factory=dict)
    prior_error: float = 0.0

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
        own = self.place, self.encoder, self.objective, self.recipe, self.encoder_prior, self.objective_options
        return EncoderCell(*own, self.prior_error if self.encoder_prior == ORACLE else 0.0)

    @property
    def epoch(self) -> int | None:
        """The epoch after which kNN looks at the encoder; None for the last one."""
        epoch = self.readout.head_options.get(EPOCH)
        return epoch if isinstance(epoch, int) else None

    @property
    def changes(self) -> dict[str, Option]:
        """What it varies of what the benchmark holds fixed: the draw of P and U, an error of π, the epoch."""
        return _changes(self.place, self.prior_error) | ({EPOCH: self.epoch} if self.epoch else {})

    @property
    def knows_classes(self) -> bool:
        """Whether the objective learns from the true class of every row."""
        return needs_classes(self.objective)

    @property
    def in_own_track(self) -> bool:
        """Whether it reads texts, or it or its teacher starts from weights learnt from other data and labels."""
        teacher = self.readout.teacher
        own = has_weights(self.encoder) or reads_texts(self.encoder)
        return own or (teacher is not None and teacher.in_own_track)

    @property
    def is_reference(self) -> bool:
        """Whether it sees true labels of training rows, through a teacher too: a ceiling or kNN, not a method."""
        teacher = self.readout.teacher
        own = self.readout.labeller == TRUTH or self.readout.head == KNN or self.knows_classes
        return own or (teacher is not None and teacher.is_reference)

    @property
    def name(self) -> str:
        """One line for people; ``--only`` looks for words in it."""
        more = _prior_words(self.prior, self.prior_error) + (f", {TOLD}" if self.knows_classes else "")
        objective = " ".join((self.objective, *option_words(self.objective_options)))
        readout = self.readout.name + (f" {EPOCH}={self.epoch}" if self.epoch else "")
        method = readout if self.objective == UNTRAINED else f"{objective}+{readout}"
        return f"{self.place.words} {method} ({self.recipe_name}, {self.encoder}{more})"

    def with_prior_error(self, error: float) -> "Pipeline":
        """The same with "oracle" as (1 + ε) times the true prior, for its teacher too."""
        teacher = self.readout.teacher
        taught = teacher.with_prior_error(error) if teacher is not None and teacher.prior == ORACLE else teacher
        return replace(self, prior_error=error, readout=replace(self.readout, teacher=taught))

    def at(self, place: Place) -> "Pipeline":
        """The same at another place, its teacher too."""
        teacher = self.readout.teacher
        readout = self.readout if teacher is None else replace(self.readout, teacher=teacher.at(place))
        return replace(self, place=place, readout=readout)

    def method(self) -> dict[str, Option]:
        """All but the place, as a table."""
        own = {name: getattr(self, name) for name in ("encoder", "objective", "recipe_name", "encoder_prior")}
        parts = {"recipe": self.recipe.to_dict(), "readout": self.readout.to_dict()}
        return {**own, **parts, **_if_any(self.objective_options, self.prior_error)}

    def to_dict(self) -> dict[str, Option]:
        """One table with tables for recipe and readout in it."""
        return {**self.place.to_dict(), **self.method()}

    @classmethod
    def from_dict(cls, content: object) -> "Pipeline":
        """What `to_dict` wrote; anything else is one error."""
        table = dict(as_table(OWNER, "its configuration", content))
        place = Place.taken_from(table)
        check_known(OWNER, "key", table, [field.name for field in fields(cls)])
        names = ("encoder", "objective", "recipe_name")
        encoder, objective, recipe_name = (decode(str, table.get(name), owner=OWNER, key=name) for name in names)
        prior = table.get("encoder_prior")
        if not (prior is None or isinstance(prior, str)):
            raise bad_argument(OWNER, "encoder_prior", "a name", prior)
        recipe = PretrainRecipe.from_dict(table.get("recipe"))
        readout = Readout.from_dict(table.get("readout"), place)
        options = as_table(OWNER, OPTIONS, table.get(OPTIONS, {}))
        error = _error_in(table)
        return cls(place, encoder, objective, recipe_name, recipe, prior, readout, options, error)


@dataclass(frozen=True)
class Baseline:
    """A published or simple method on the raw rows.

    Attributes:
        place: task, setting, number of labelled rows, seed.
        method: a registered baseline, or "supervised", a reference: the network of `naive` on the true labels.
        encoder: a registered encoder; None for the method's own.
        prior: what it is given of π: nothing, "oracle" or the name of an estimator.
        settings: every number.
        prior_error: ε, where "oracle" stands for (1 + ε) times the true π.
    """

    place: Place
    method: str
    encoder: str | None
    prior: str | None
    settings: Options
    prior_error: float = 0.0

    @cached_property
    def key(self) -> str:
        """The identity of the result."""
        return key_of(self.to_dict())

    @property
    def registered(self) -> str:
        """The registered baseline whose code, settings and needs the method has."""
        return ITS_BASELINE if self.method == SUPERVISED else self.method

    @property
    def in_own_track(self) -> bool:
        """Whether it reads texts; baselines train their networks from the start."""
        return self.encoder == TFIDF

    @property
    def is_reference(self) -> bool:
        """Whether it sees the true labels of the training rows."""
        return self.method == SUPERVISED

    @property
    def name(self) -> str:
        """One line for people; ``--only`` looks for words in it."""
        prior = _prior_words(self.prior, self.prior_error)
        return f"{self.place.words} {self.method} ({self.encoder or 'own encoder'}{prior})"

    def with_prior_error(self, error: float) -> "Baseline":
        """The same with "oracle" as (1 + ε) times the true prior."""
        return replace(self, prior_error=error)

    @property
    def changes(self) -> dict[str, Option]:
        """What it varies of what the benchmark holds fixed: the draw of P and U, an error of π."""
        return _changes(self.place, self.prior_error)

    def to_dict(self) -> dict[str, Option]:
        """One table."""
        own = {name: getattr(self, name) for name in ("encoder", "prior", "method", "settings")}
        return {**self.place.to_dict(), **own, **_if_any({}, self.prior_error)}

    @classmethod
    def from_dict(cls, content: object) -> "Baseline":
        """What `to_dict` wrote; anything else is one error."""
        table = dict(as_table(OWNER, "its configuration", content))
        place = Place.taken_from(table)
        error = _error_in(table)
        table.pop(PRIOR_ERROR, None)
        return cls(place, **asdict(decode(_PlainBaseline, table, owner=OWNER)), prior_error=error)


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


def has_weights(encoder: str) -> bool:
    """Whether an encoder comes with published weights; not known of one that is not registered here."""
    entry = entries("encoders").get(encoder)
    return entry is not None and entry.pretrained is not None


def reads_texts(encoder: str) -> bool:
    """Whether this is a registered encoder of texts."""
    return encoder in entries(TEXT_ENCODERS)


def option_words(options: Options) -> list[str]:
    """Options for people: ``mixing=0.3``."""
    return [f"{name}={value}" for name, value in options.items()]


def is_estimated(prior: str | None) -> TypeGuard[str]:
    """Whether this names an estimator of π, and not nothing or the true one."""
    return prior not in (None, ORACLE)


def units(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Groups of cells that share an encoder, and each baseline alone, in the order in which they first occur."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        key = cell.key if isinstance(cell, Baseline) else cell.encoder_cell.key
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _if_any(options: Options, prior_error: float) -> dict[str, Option]:
    """Options of an objective and the error of a prior as parts of a table, which without any has no such keys."""
    return ({OPTIONS: dict(options)} if options else {}) | ({PRIOR_ERROR: prior_error} if prior_error else {})


def _error_in(table: Options) -> float:
    return decode(float, table.get(PRIOR_ERROR, 0.0), owner=OWNER, key=PRIOR_ERROR)


def _changes(place: Place, prior_error: float) -> dict[str, Option]:
    return place.changes | ({PRIOR_ERROR: prior_error} if prior_error else {})


def _prior_words(prior: str | None, error: float) -> str:
    return (f", prior {prior}" if prior else "") + (f" {PRIOR_ERROR}={error:g}" if error else "")
