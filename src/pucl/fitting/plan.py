"""The plan of a fit: what the user chose, what the data decide otherwise, and the folds that are hidden."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch import device as Device

from pucl.encoders.frozen.resolve import Given, check_encoder, is_frozen
from pucl.encoders.plain import PCA, RAW
from pucl.errors import (
    Described,
    bad_argument,
    check_count,
    check_positive,
    check_share,
    is_number,
    unknown_name,
)
from pucl.fitting.leaking import leaks_of
from pucl.fitting.modes import check_fine_tune
from pucl.fitting.progress import OnProgress, StageProgress
from pucl.fitting.sizes import batch_size_for, config_for
from pucl.heads.stored import heads_of_models
from pucl.labels import check_answers, check_labels, check_negatives
from pucl.models.record import TrainingChoices
from pucl.models.schema import Schema
from pucl.pseudo_labels import find_labeller
from pucl.ranking.rows import folds_of
from pucl.registry import entries, get
from pucl.selection import Leaks
from pucl.texts import HASHED
from pucl.texts import check_encoder as check_text_encoder
from pucl.training.config import TrainConfig
from pucl.training.pretraining import default_view
from pucl.views import View

if TYPE_CHECKING:
    from pucl.fitting.resuming import Unfinished
    from pucl.fitting.start import Start

Bools = NDArray[np.bool_]
AUTO = "auto"  # leaves a choice to the data
TUNE = ("frozen", "head", "all", AUTO)  # how far an encoder with weights of its own is tuned
OF_TEXTS = "st:"  # encoders of this scheme take texts
FOLDS = 5
FEWEST, FEWEST_LABELLED = 500, 20  # rows and labelled rows below which no encoder is trained
FEWEST_VECTORS = 5000  # the same for vectors
NO_LEAKS = Leaks((), 0, 0)


@dataclass(frozen=True)
class FitOptions:
    """What the user chose; ``"auto"`` and None leave the choice to the data. The names are those of `PUClassifier`.

    `owner` is what the user called, and signs the errors.
    """

    objective: str = AUTO
    prior: float | str | None = None
    encoder: Given = AUTO
    view: str | View = AUTO
    labeller: str = AUTO
    head: str = AUTO
    temperature: float = 0.5
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    fine_tune: bool | str = False
    time_limit: float | None = None
    tune: str | None = None
    download: bool = False
    text_encoder: str = HASHED
    seed: int = 0
    owner: str = "PUClassifier"

    def __post_init__(self) -> None:
        if isinstance(self.encoder, str) and self.encoder.startswith(OF_TEXTS):
            if self.text_encoder not in (HASHED, self.encoder):
                allowed = f"left out beside encoder {self.encoder!r}"
                raise bad_argument(self.owner, "text_encoder", allowed, self.text_encoder)
            object.__setattr__(self, "text_encoder", self.encoder)
            object.__setattr__(self, "encoder", AUTO)
        if self.epochs == 0 and self.tune in (None, "frozen") and is_frozen(self.encoder, "frozen"):
            object.__setattr__(self, "tune", "frozen")  # an encoder that people have, not trained at all
            object.__setattr__(self, "epochs", None)
        self._check_encoder()
        object.__setattr__(self, "text_encoder", check_text_encoder(self.text_encoder, owner=self.owner))
        if self.labeller != AUTO:  # a former name becomes the one of today
            object.__setattr__(self, "labeller", find_labeller(self.labeller, owner=self.owner).name)
        for name, family in (
            ("objective", "losses"),
            ("encoder", "encoders"),
            ("view", "views"),
        ):
            part = getattr(self, name)
            if isinstance(part, str) and part != AUTO and not (name == "encoder" and ":" in part):
                object.__setattr__(self, name, get(family, part).name)
        if self.head not in (AUTO, *heads_of_models()):
            raise unknown_name("head of a model", self.head, (AUTO, *heads_of_models()))
        self._check_prior()
        check_positive(self.owner, "temperature", self.temperature)
        if self.epochs == 0 and self.owner != "PUEncoder":
            instead = "tune='frozen' uses an encoder that you have as it is, encoder='raw' the rows themselves"
            raise bad_argument(self.owner, "epochs", f"a whole number ≥ 1 ({instead})", self.epochs)
        for name, low in (("epochs", 1), ("batch_size", 2)):
            if getattr(self, name) is not None:
                check_count(self.owner, name, getattr(self, name), low=low)
        for name in ("learning_rate", "time_limit"):
            if getattr(self, name) is not None:
                check_positive(self.owner, name, getattr(self, name))
        check_count(self.owner, "seed", self.seed, low=0)
        check_fine_tune(self.owner, self.fine_tune)

    @property
    def asks_for_training(self) -> bool:
        """Whether the user chose anything about the training of an encoder."""
        named = any(getattr(self, name) != AUTO for name in ("encoder", "objective", "view"))
        sized = any(getattr(self, name) is not None for name in ("epochs", "batch_size", "learning_rate"))
        return named or sized or bool(self.fine_tune)

    def _check_encoder(self) -> None:
        """The encoder is one, and can be tuned as far as the user wants."""
        if not isinstance(self.encoder, str) or ":" in self.encoder:
            check_encoder(self.owner, self.encoder)
        if self.tune is None:
            return
        if self.tune not in TUNE:
            raise bad_argument(self.owner, "tune", f"one of {', '.join(TUNE)}, or left out", self.tune)
        if self.encoder == AUTO:
            return  # which texts may be tuned with; the rows will tell
        if not is_frozen(self.encoder, self.tune) and not (isinstance(self.encoder, nn.Module) or self.tune == "all"):
            allowed = "'all', or left out, for an encoder without weights of its own"
            raise bad_argument(self.owner, "tune", allowed, Described(f"{self.tune!r} with encoder {self.encoder!r}"))

    def _check_prior(self) -> None:
        if isinstance(self.prior, str):
            if self.prior != AUTO:
                get("priors", self.prior)
        elif self.prior is not None:
            if not is_number(self.prior):
                raise bad_argument(self.owner, "prior", "None, a number or the name of an estimator", self.prior)
            check_share(self.owner, "prior", self.prior)


@dataclass(frozen=True)
class PretrainingPlan:
    """How the encoder is to be trained, with the reasons; `shortened_from` so many epochs to keep the time limit.

    A network that came with weights is `stored_as` a name with options, by which it can be made again.
    """

    encoder: str | nn.Module
    objective: str
    view: str | View
    config: TrainConfig
    reasons: tuple[str, ...]
    shortened_from: int | None = None
    stored_as: str | None = None
    stored_options: Mapping[str, Any] = field(default_factory=dict)

    def shortened(self, epochs: int) -> "PretrainingPlan":
        """The same with fewer epochs, for want of time."""
        return replace(self, config=replace(self.config, epochs=epochs), shortened_from=self.config.epochs)

    @property
    def choices(self) -> TrainingChoices:
        """As the record holds it; parts that are not registered are named by their type."""
        config = self.config
        return TrainingChoices(
            self.objective, name_of(self.view), config.epochs, config.batch_size, config.optimiser,
            config.learning_rate, config.weight_decay,
        )  # fmt: skip


@dataclass(frozen=True)
class FitPlan:
    """What every stage of a fit works with.

    Attributes:
        rows: as a model takes them, (n, …).
        features: the rows as an encoder takes them, (n, …).
        labelled: s, (n,) bool.
        schema: of the rows.
        options: what the user chose.
        device: where to train.
        fold: the fold of every row, (n,); the first `hidden_folds` are hidden from the encoder's training.
        pretraining: how to train the encoder; None where the rows are used as they are.
        deadline: `time.perf_counter()` by which all should be done; None without a time limit.
        negative: confirmed negatives, (n,) bool; None without any.
        settled: fast rankers separate the classes, so that nothing slower is tried.
        out_of_time: there was no time for a single epoch of the encoder's training.
        leaks: columns that give the label away, and labelled rows that stand in U again.
        on_progress: called with how far the stages are.
        unfinished: where the fit saves itself; None if it does not.
        answered: what reviewers said, 1 or −1, and 0 of other rows, (n,); None without answers. They are part of U.
        extra: answered rows that a random sample of U was given besides, (n,) bool; None without any. They teach, and
            are no part of U.
        start: an encoder that is trained already; None to train one.
        share: π̂ by a labeller that did not use the answers, for labellers that do; None without answers.
    """

    rows: Tensor
    features: Tensor
    labelled: Tensor
    schema: Schema
    options: FitOptions
    device: Device
    fold: Tensor
    pretraining: PretrainingPlan | None
    deadline: float | None = None
    negative: Tensor | None = None
    settled: bool = False
    out_of_time: bool = False
    leaks: Leaks = NO_LEAKS
    on_progress: OnProgress | None = None
    unfinished: "Unfinished | None" = None
    answered: Tensor | None = None
    extra: Tensor | None = None
    start: "Start | None" = None
    share: float | None = None

    @property
    def prior(self) -> float | None:
        """π where it was given as a number."""
        given = self.options.prior
        return float(given) if isinstance(given, float | int) else None

    @property
    def counted(self) -> Tensor:
        """P, U and N: all rows but the extra ones, (n,) bool."""
        return torch.ones_like(self.labelled) if self.extra is None else ~self.extra

    @property
    def in_p_or_u(self) -> Tensor:
        """All rows but the confirmed negatives and the extra ones, (n,) bool."""
        return self.counted if self.negative is None else self.counted & ~self.negative

    @property
    def aside(self) -> NDArray[np.bool_] | None:
        """The rows that are neither in P nor in U, (n,); None where all rows are."""
        return None if self.negative is None and self.extra is None else (~self.in_p_or_u).numpy()

    @property
    def labels(self) -> Tensor:
        """What is known of every row, (n,): s, or with confirmed negatives 1, 0 and −1."""
        return self.labelled if self.negative is None else self.labelled.to(torch.int8) - self.negative.to(torch.int8)

    @property
    def negatives(self) -> NDArray[np.bool_] | None:
        """`negative` as an array, for functions of arrays; None without any."""
        return None if self.negative is None else self.negative.numpy()

    @property
    def train_positive(self) -> Tensor:
        """The rows that rankers and heads learn as positives: P and what reviewers called positive, (n,) bool."""
        return self.labelled if self.answered is None else self.labelled | (self.answered > 0)

    @property
    def train_negative(self) -> Tensor | None:
        """The rows that they learn as negatives: confirmed ones and what reviewers called negative; None for none."""
        if self.answered is None or not bool((self.answered < 0).any()):
            return self.negative
        said = self.answered < 0
        return said if self.negative is None else said | self.negative

    @property
    def unlabelled(self) -> Tensor:
        """U: the rows that are neither labelled nor confirmed negatives nor extra, (n,) bool."""
        return self.in_p_or_u & ~self.labelled

    @property
    def n_unlabelled(self) -> int:
        """How many rows of U there are."""
        return int(self.unlabelled.sum())

    @property
    def averages(self) -> bool:
        """Whether rankers of the rows are averaged: on tables and vectors, unless the user chose another way."""
        options = self.options
        return self.schema.kind != "image" and options.encoder == options.labeller == options.head == AUTO

    @property
    def n_folds(self) -> int:
        """How many folds there are: five, or fewer where P or U has fewer rows."""
        return int(self.fold.max()) + 1

    @property
    def hidden_folds(self) -> int:
        """How many folds are hidden from the encoder: two, so that one can be judged with the labels of the other."""
        return 2 if self.n_folds >= 4 else 1

    @property
    def seen_by_encoder(self) -> Tensor:
        """The labelled rows whose labels the encoder's training sees, (n,) bool."""
        return self.labelled & (self.fold >= self.hidden_folds)

    def progress(self, stage: str, done: float = 0.0, detail: str = "", seconds: float | None = None) -> None:
        """Report how far a stage of the fit is."""
        if self.on_progress is not None:
            self.on_progress(StageProgress(stage, done, detail, seconds))


def plan_fit(
    rows: Tensor,
    s: Any,
    schema: Schema,
    options: FitOptions,
    device: Device,
    *,
    negative: Any = None,
    answers: Any = None,
    extra: NDArray[np.bool_] | None = None,
    on_progress: OnProgress | None = None,
) -> FitPlan:
    """Check the labels, deal the rows into folds and decide how to train the encoder.

    Labelled, unlabelled, confirmed negative and extra rows are each dealt out evenly; the others do not depend on the
    extra ones.
    """
    observed = check_labels(s, n_rows=len(rows), owner=options.owner)
    n_p, n_other = int(observed.sum()), int((~observed).sum())
    if min(n_p, n_other) < 2:
        got = Described(f"{n_p} labelled and {n_other} unlabelled")
        raise bad_argument(options.owner, "s", "0 or 1, with at least two rows of each kind", got)
    confirmed = check_negatives(negative, observed, len(rows), options.owner)
    said = check_answers(answers, observed, confirmed, len(rows), options.owner)
    labelled, known = torch.from_numpy(observed), None if confirmed is None else torch.from_numpy(confirmed)
    added = None if extra is None else torch.from_numpy(extra)
    counted = slice(None) if added is None else ~added
    pretraining = plan_pretraining(options, schema, len(labelled[counted]), n_p, device)
    dealt = folds_of(options.owner, labelled[counted], FOLDS, options.seed, None if known is None else known[counted])
    fold = torch.arange(len(rows)) % (int(dealt.max()) + 1)
    fold[counted] = dealt
    deadline = None if options.time_limit is None else time.perf_counter() + options.time_limit
    plan = FitPlan(
        rows, schema.features(rows), labelled, schema, options, device, fold, pretraining, deadline, known,
        answered=None if said is None else torch.from_numpy(said), extra=added, on_progress=on_progress,
    )  # fmt: skip
    return replace(plan, leaks=leaks_of(rows, observed, schema, plan.aside, options.seed))


def name_of(part: Any) -> str:
    """The name of a registered part, or the type of the user's own."""
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)


def plan_pretraining(
    options: FitOptions, schema: Schema, n: int, n_labelled: int, device: Device
) -> PretrainingPlan | None:
    """How to train the encoder; None if the user chose the raw rows, or did not ask and it would hardly pay.

    It pays on images and on many vectors. On tables it was never better than trees and linear models (LOG.md).
    """
    requested = options.encoder != AUTO
    fewest = FEWEST if schema.kind == "image" or options.asks_for_training else FEWEST_VECTORS
    if options.encoder in (RAW, PCA) or (not requested and (n < fewest or n_labelled < FEWEST_LABELLED)):
        return None
    if schema.kind == "table" and not options.asks_for_training:
        return None
    encoder, why = _encoder(options, schema, device)
    view = options.view if options.view != AUTO else _view(schema)
    objective = options.objective if options.objective != AUTO else "pucl" if options.prior is None else "punce"
    if entries("losses")[objective].needs_prior and options.prior is None:
        allowed = f"a number or an estimator's name for objective {objective!r}"
        raise bad_argument(options.owner, "prior", allowed, None)
    batch = options.batch_size or batch_size_for(schema, n)
    config = config_for(options, schema, n, min(batch, n), device)
    of_view = "as requested" if options.view != AUTO else f"the default for {schema.kind} rows"
    default = "needs no prior" if objective == "pucl" else "uses the prior you gave"
    reasons = (
        f"Encoder {name_of(encoder)}: {why}.",
        f"View {name_of(view)}: {of_view}.",
        f"Objective {objective}: {'as requested' if options.objective != AUTO else default}.",
        f"Training: {config.epochs} epochs in batches of {config.batch_size} with {config.optimiser}, for {n:,} rows "
        f"on a {'GPU' if device.type == 'cuda' else 'CPU'}.",
    )
    return PretrainingPlan(encoder, objective, view, config, reasons)


def _encoder(options: FitOptions, schema: Schema, device: Device) -> tuple[str | nn.Module, str]:
    if options.encoder != AUTO:
        return options.encoder, "as requested"
    if schema.kind != "image":
        return "mlp", "for rows that are not images"
    side = min(schema.shape[1:])
    if device.type != "cuda":
        return ("small_cnn" if side < 64 else "thumbnail_cnn"), "fast on a CPU"
    if side < 16:
        return "small_cnn", "for images below 16 pixels"
    return ("cnn7bn", "for images below 48 pixels") if side < 48 else ("resnet18", "for images of 48 pixels or more")


def _view(schema: Schema) -> str:
    return {"image": default_view(schema.shape), "table": "scarf", "vector": "vector"}[schema.kind]
