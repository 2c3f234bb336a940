"""The record of a fit: what a model was trained on, what was chosen and why, and how good it is estimated to be."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, get_args

from pucl import __version__
from pucl.data import Kind
from pucl.errors import InputError, is_number
from pucl.models.stored_values import listed, number, optional, share, text, texts, whole
from pucl.priors import PriorEstimate
from pucl.selection.lift import Lift
from pucl.selection.scores import Estimate, PUScores, RankingScores
from pucl.selection.verdict import Verdict, Word

VERSION = 4  # of the stored record; version 1 is the ``about`` of models of format 1, 2 has no verdict, 3 no importance
OWNER = "pucl.load_model"
FROM_FILES = ("source", "source_rows", "id_column", "label", "created", "command")
METRICS = tuple(field.name for field in fields(PUScores) if field.type is Estimate)
METRICS_WITHOUT_PRIOR = tuple(field.name for field in fields(RankingScores) if field.type is Estimate)
METRICS_WITH_NEGATIVES = tuple(field.name for field in fields(RankingScores) if field.type is not Estimate)
SHARES = ("proxy_accuracy", "proxy_accuracy_one_sample", "zero_one_risk")  # unbiased: noise may push them out of [0, 1]


@dataclass(frozen=True)
class RowCounts:
    """How many rows a model was trained on: labelled positives, unlabelled rows and confirmed negatives."""

    n: int
    labelled: int
    unlabelled: int
    negative: int = 0


@dataclass(frozen=True)
class Sampling:
    """How the rows of a fit were drawn from those of the source: of every kind all, or a uniform random sample.

    Attributes:
        rows: how many rows the source has.
        key: what decides whether a row is drawn, together with the seed: its id, or its file and its number there.
        seed: of the draw.
        max_rows: how many were to be drawn.
        reason: why so many, a sentence.
    """

    rows: RowCounts
    key: str
    seed: int
    max_rows: int
    reason: str


@dataclass(frozen=True)
class TrainingChoices:
    """How the encoder was trained."""

    objective: str
    view: str
    epochs: int
    batch_size: int
    optimiser: str
    learning_rate: float
    weight_decay: float


@dataclass(frozen=True)
class Choices:
    """What was picked, by the user or from the data.

    Attributes:
        encoder: name of the encoder; for the user's own network, its type.
        labeller: the pseudo-labeller.
        head: the head.
        training: how the encoder was trained; None for the rows as they are.
        fine_tuned: how encoder and head were fine-tuned; None where they were not.
    """

    encoder: str
    labeller: str
    head: str
    training: TrainingChoices | None = None
    fine_tuned: str | None = None

    def to_dict(self) -> dict[str, str | int | float | None]:
        """As one flat mapping."""
        trained = {"objective": None} if self.training is None else asdict(self.training)
        rest = {"labeller": self.labeller, "head": self.head, "fine_tuned": self.fine_tuned}
        return {"encoder": self.encoder, **trained, **rest}


@dataclass(frozen=True)
class CandidateScores:
    """A candidate with its estimates on hidden positives; None where too few were hidden.

    Attributes:
        name: of the candidate.
        chosen: whether the model uses it.
        pu_auc: chance that a hidden positive scores above an unlabelled row, by which candidates are compared; on the
            rows hidden from this one, which may be others than those hidden from the next.
        accuracy: on the unlabelled rows; None where π is only bounded.
        weight: how much it counts in an average of several, a share; None where nothing was averaged.
        difference: by how much the AUC is above that of the chosen one on the rows that both were judged on; None for
            the chosen one, and where there are none.
        hidden: how many positives were hidden from it.
    """

    name: str
    chosen: bool = False
    pu_auc: Estimate | None = None
    accuracy: Estimate | None = None
    weight: float | None = None
    difference: Estimate | None = None
    hidden: int | None = None


@dataclass(frozen=True)
class EpochRecord:
    """What is known of an epoch of the encoder's training; see `pucl.training.monitor.Health` for the last eight."""

    epoch: int
    loss: float | None = None
    learning_rate: float | None = None
    alignment: float | None = None
    uniformity: float | None = None
    rank: float | None = None
    dim: int | None = None
    separation: float | None = None
    n_held: int | None = None
    n_seen: int | None = None
    rows: int | None = None

    def numbers(self) -> dict[str, float]:
        """The numbers that are known, by name, without that of the epoch."""
        known = {name: value for name, value in asdict(self).items() if name != "epoch" and value is not None}
        return {name: value for name, value in known.items() if is_number(value)}


@dataclass(frozen=True)
class FitRecord:
    """Everything a model knows of its own fit; `to_dict` and `from_dict` store it as JSON.

    Attributes:
        kind: of the rows.
        rows: how many the model has learned from.
        prior: π with its interval, or a bound on it, and the method that gave them.
        choices: what was picked.
        reasons: why, a sentence each.
        candidates: what was compared, with their scores.
        metrics: estimates from hidden positives: `PUScores`, or only what needs no π where π is a bound; None where
            too few could be hidden.
        verdict: whether the model is worth using, and why; None in models written before there was one.
        lift: how much richer in hidden positives the best-scored rows are than a random pick.
        importance: of the columns of a table, by name and largest first: how far the AUC of hidden positives against
            unlabelled rows drops when a column is shuffled; empty where it is not known.
        score_ranges: lowest and highest precision, F1 and accuracy over the plausible π, by name; only for a bound.
        diagnostics: findings on the embedding and on the labels, a sentence each.
        warnings: what looked wrong.
        history: the epochs of the encoder's training.
        seed: of everything random.
        seconds: how long the fit took.
        fingerprint: of the rows and labels.
        pucl_version: that fitted the model.
        source: name of the file or folder the rows came from, as the next five where the rows came from files.
        source_rows: how many rows it holds.
        id_column: the column with the ids.
        label: the column with the labels; None where they came from a list or from folders.
        created: when, as an ISO time.
        command: how to do it again: the command, or the call in Python.
        versions: of what computed it, by name: Python, torch, numpy and scikit-learn.
        sampling: how the rows were drawn from those of the source; None where all were used.
    """

    kind: Kind
    rows: RowCounts
    prior: PriorEstimate
    choices: Choices
    reasons: tuple[str, ...] = ()
    candidates: tuple[CandidateScores, ...] = ()
    metrics: RankingScores | None = None
    verdict: Verdict | None = None
    lift: tuple[Lift, ...] = ()
    importance: Mapping[str, Estimate] = field(default_factory=dict)
    score_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    history: tuple[EpochRecord, ...] = ()
    seed: int = 0
    seconds: float | None = None
    fingerprint: str | None = None
    pucl_version: str = __version__
    source: str | None = None
    source_rows: int | None = None
    id_column: str | None = None
    label: str | None = None
    created: str | None = None
    command: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    sampling: Sampling | None = None

    @property
    def all_rows(self) -> RowCounts:
        """How many rows the source has, of which the model may have learned from a sample."""
        return self.rows if self.sampling is None else self.sampling.rows

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `from_dict` gives back an equal record."""
        return {
            "record_version": VERSION,
            "version": self.pucl_version,
            "kind": self.kind,
            "rows": asdict(self.rows),
            "fingerprint": self.fingerprint,
            "choices": self.choices.to_dict(),
            "reasons": list(self.reasons),
            "candidates": [_without_none(asdict(candidate)) for candidate in self.candidates],
            "prior": asdict(self.prior),
            "metrics": metrics_to_dict(self.metrics),
            "metrics_prior": self.metrics.prior if isinstance(self.metrics, PUScores) else None,
            "verdict": None if self.verdict is None else asdict(self.verdict),
            "lift": [asdict(lift) for lift in self.lift],
            "importance": {name: asdict(drop) for name, drop in self.importance.items()},
            "score_ranges": {name: list(ends) for name, ends in self.score_ranges.items()},
            "diagnostics": list(self.diagnostics),
            "warnings": list(self.warnings),
            "history": [_without_none(asdict(epoch)) for epoch in self.history],
            "seed": self.seed,
            "seconds": self.seconds,
            "versions": dict(self.versions),
            **{name: getattr(self, name) for name in FROM_FILES},
            **({} if self.sampling is None else {"sampling": asdict(self.sampling)}),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "FitRecord":
        """The record that `to_dict` gave, or the ``about`` of a model of format 1; one error if it is damaged."""
        version = content.get("record_version", 1)
        if not isinstance(version, int) or version > VERSION:
            raise InputError(f"the record of the fit has version {version}; a newer pucl can read it", owner=OWNER)
        try:
            return _record(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            short = " ".join(reason.split())[:200]
            raise InputError(f"the record of the fit is damaged ({short}); fit the model again", owner=OWNER) from None


def metrics_to_dict(metrics: RankingScores | None) -> dict[str, dict[str, float]]:
    """Value and error of every estimate, by name; empty where there are none."""
    if metrics is None:
        return {}
    names = METRICS if isinstance(metrics, PUScores) else METRICS_WITHOUT_PRIOR
    known = (name for name in METRICS_WITH_NEGATIVES if getattr(metrics, name) is not None)
    return {name: asdict(getattr(metrics, name)) for name in (*names, *known)}


def within_bounds(scores: PUScores) -> PUScores:
    """The scores with unbiased estimates of shares clipped to [0, 1], for display."""
    shares: dict[str, Estimate] = {name: getattr(scores, name) for name in SHARES}
    bounded: dict[str, Any] = {name: replace(e, value=min(max(e.value, 0.0), 1.0)) for name, e in shares.items()}
    return replace(scores, **bounded)


def _without_none(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}


def _record(content: Mapping[str, Any]) -> FitRecord:
    """The parts of a stored record; anything that is missing or of another type is an error."""
    kind = text(content["kind"])
    if kind not in get_args(Kind):
        raise ValueError(f"kind {kind!r}")
    prior = _prior(content["prior"])
    return FitRecord(
        kind=kind,  # type: ignore[arg-type]
        rows=_rows(content["rows"]),
        prior=prior,
        choices=_choices(content["choices"]),
        reasons=texts(content["reasons"]),
        candidates=tuple(_candidate(each, prior) for each in listed(content["candidates"])),
        metrics=_metrics(content["metrics"], optional(number, content.get("metrics_prior")) or prior.value),
        verdict=optional(_verdict, content.get("verdict")),
        lift=tuple(map(_lift, listed(content.get("lift", ())))),
        importance={text(name): _estimate(drop) for name, drop in content.get("importance", {}).items()},
        score_ranges={text(name): _range(ends) for name, ends in content.get("score_ranges", {}).items()},
        diagnostics=texts(content["diagnostics"]),
        warnings=texts(content["warnings"]),
        history=tuple(map(_epoch, listed(content["history"]))),
        seed=whole(content["seed"]),
        seconds=optional(number, content.get("seconds")),
        fingerprint=optional(text, content.get("fingerprint")),
        pucl_version=text(content["version"]),
        source=optional(text, content.get("source")),
        source_rows=optional(whole, content.get("source_rows")),
        id_column=optional(text, content.get("id_column")),
        label=optional(text, content.get("label")),
        created=optional(text, content.get("created")),
        command=optional(text, content.get("command")),
        versions={text(name): text(number) for name, number in content.get("versions", {}).items()},
        sampling=optional(_sampling, content.get("sampling")),
    )


def _rows(content: Mapping[str, Any]) -> RowCounts:
    n, labelled, unlabelled = (whole(content[name]) for name in ("n", "labelled", "unlabelled"))
    return RowCounts(n, labelled, unlabelled, whole(content.get("negative", 0)))  # 0 in models without the field


def _sampling(content: Mapping[str, Any]) -> Sampling:
    key, reason = text(content["key"]), text(content["reason"])
    return Sampling(_rows(content["rows"]), key, whole(content["seed"]), whole(content["max_rows"]), reason)


def _choices(content: Mapping[str, Any]) -> Choices:
    training = None
    if content["objective"] is not None:
        training = TrainingChoices(
            text(content["objective"]), text(content["view"]), whole(content["epochs"]),
            whole(content["batch_size"]), text(content["optimiser"]), number(content["learning_rate"]),
            number(content["weight_decay"]),
        )  # fmt: skip
    encoder, labeller, head = (text(content[name]) for name in ("encoder", "labeller", "head"))
    return Choices(encoder, labeller, head, training, optional(text, _fine_tuned(content["fine_tuned"])))


def _fine_tuned(value: Any) -> Any:
    """How encoder and head were fine-tuned; the first models say only whether they were, with labels that stay."""
    return ("fixed labels" if value else None) if isinstance(value, bool) else value


def _candidate(content: Mapping[str, Any], prior: PriorEstimate) -> CandidateScores:
    """A candidate; up to version 3, ``auc`` was against unlabelled rows only for bounds and averaged rankers."""
    former = optional(_estimate, content.get("auc"))
    weight = optional(share, content.get("weight"))
    names = ("pu_auc", "accuracy", "difference")
    pu_auc, accuracy, difference = (optional(_estimate, content.get(name)) for name in names)
    return CandidateScores(
        text(content["name"]),
        content.get("chosen") is True,
        former if pu_auc is None and (prior.is_bound or weight is not None) else pu_auc,
        accuracy,
        weight,
        difference,
        optional(whole, content.get("hidden")),
    )


def _prior(content: Mapping[str, Any]) -> PriorEstimate:
    value, low, high = (share(content[name]) for name in ("value", "low", "high"))
    return PriorEstimate(value, low, high, text(content["method"]), content.get("is_bound") is True)


def _metrics(content: Mapping[str, Any], prior: float) -> RankingScores | None:
    if not content:
        return None
    known = {name: _estimate(content[name]) for name in METRICS_WITH_NEGATIVES if name in content}
    if set(content) - set(known) == set(METRICS_WITHOUT_PRIOR):
        return RankingScores(**{name: _estimate(content[name]) for name in METRICS_WITHOUT_PRIOR}, **known)
    return PUScores(prior=prior, **{name: _estimate(content[name]) for name in METRICS}, **known)


def _verdict(content: Mapping[str, Any]) -> Verdict:
    word = text(content["word"])
    if word not in get_args(Word):
        raise ValueError(f"verdict {word!r}")
    return Verdict(word, text(content["reason"]))  # type: ignore[arg-type]


def _lift(content: Mapping[str, Any]) -> Lift:
    return Lift(share(content["share"]), number(content["value"]), number(content["error"]))


def _range(ends: Any) -> tuple[float, float]:
    low, high = map(number, listed(ends))
    return low, high


def _epoch(content: Mapping[str, Any]) -> EpochRecord:
    known = {field.name: content[field.name] for field in fields(EpochRecord) if content.get(field.name) is not None}
    counts = ("epoch", "dim", "n_held", "n_seen", "rows")
    numbers: dict[str, Any] = {n: whole(v) if n in counts else number(v) for n, v in known.items()}
    return EpochRecord(**numbers)


def _estimate(content: Mapping[str, Any]) -> Estimate:
    return Estimate(number(content["value"]), number(content["error"]))
