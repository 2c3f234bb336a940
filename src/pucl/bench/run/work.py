"""One unit of work: the cells that share an encoder, or one baseline, from the data to finished lines of results."""

import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pucl.bench.grid.cells import Baseline, Cell, Pipeline
from pucl.bench.results.line import ResultLine
from pucl.bench.results.revisions import revisions_of
from pucl.bench.run.encoding import EncoderStore, KeptTeacher, TrainedEncoder
from pucl.bench.run.exam import Exam, Metrics, ObservedRows, SkipError, pose
from pucl.bench.run.provenance import provenance
from pucl.bench.run.stages import Embedded, FittedCell, RowScorer, fit_method, fit_readout
from pucl.bench.run.stored_teachers import kept_teacher, restored
from pucl.device import pick_device
from pucl.encoders.inputs import Encoder
from pucl.errors import InputError, MissingDataError, RunError, RunWarning, bad_argument, is_number


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell: a line of results, the reason why it was skipped, or the error it failed with."""

    key: str
    line: ResultLine | None = None
    skipped: str | None = None
    failed: str | None = None


class Bench:
    """Runs units on one device; knows where encoders are stored and the origin that every line records."""

    def __init__(self, encoders: Path, device: str | None, commit: str | None = None, *, anew: bool = False) -> None:
        self.device = str(pick_device(device))
        self.store = EncoderStore(encoders, self.device, anew)
        self.origin = provenance(self.device, commit)
        self._fitted: dict[str, FittedCell] = {}  # of the unit at work and its teachers, by key

    def run(self, unit: list[Cell]) -> Iterator[Outcome]:
        """The outcomes of the cells of a unit, each as soon as it is known."""
        left = list(unit)
        try:
            observed, exam = pose(unit[0].place)
            if isinstance(unit[0], Baseline):
                outcomes = self._baselines([cell for cell in unit if isinstance(cell, Baseline)], observed, exam)
            else:
                outcomes = self._pipelines([cell for cell in unit if isinstance(cell, Pipeline)], observed, exam)
            for outcome in outcomes:
                left.pop(0)
                yield outcome
        except Exception as error:  # of what all of them share
            yield from (outcome_of(error, cell) for cell in left)

    def _pipelines(self, unit: list[Pipeline], observed: ObservedRows, exam: Exam) -> Iterator[Outcome]:
        shared: list[str] = []
        self._fitted.clear()
        with _collecting(shared):
            epochs = {cell.epoch for cell in unit if cell.epoch is not None}
            trained = self.store.encoder(unit[0].encoder_cell, observed, exam, epochs)
            rows = self._embedded(unit[0], trained, observed)
        probes: Metrics = {}
        for cell in unit:
            began, caught_warnings = time.perf_counter(), list(shared)
            try:
                if cell.epoch is not None:
                    metrics = _after(cell.epoch, trained)
                    yield self._line(cell, metrics, began, caught_warnings, trained.training.seconds)
                    continue
                with _collecting(caught_warnings):
                    fitted = self._fitted[cell.key] = self._fit(cell, rows, exam)
                    probes = probes or exam.probe(trained.encoder, self.device)
                    grades = _grades(fitted, exam) if fitted.score else {"accuracy": probes["knn"]}
                metrics = _known(cell, fitted, exam, trained) | grades | probes
                yield self._line(cell, metrics, began, caught_warnings, trained.training.seconds)
            except Exception as error:
                yield outcome_of(error, cell)

    def _baselines(self, unit: list[Baseline], observed: ObservedRows, exam: Exam) -> Iterator[Outcome]:
        for cell in unit:
            began, caught_warnings = time.perf_counter(), list[str]()
            with _collecting(caught_warnings):
                fitted = fit_method(cell, observed, exam, self.device)
                grades = _grades(fitted, exam)
            yield self._line(cell, _known(cell, fitted, exam) | grades, began, caught_warnings)

    def _embedded(self, cell: Pipeline, trained: TrainedEncoder, observed: ObservedRows) -> Embedded:
        return Embedded(trained.encoder, observed, self.device, cell.recipe.withheld)

    def _fit(self, cell: Pipeline, rows: Embedded, exam: Exam) -> FittedCell:
        """The readout of a cell, after the pipeline that it learns from, if it has one."""
        teacher = cell.readout.teacher
        scorer = None if teacher is None else self._taught(cell, teacher, rows.observed, exam)
        return fit_readout(cell.readout, rows, exam.with_prior_error(cell.prior_error), scorer)

    def _taught(self, cell: Pipeline, teacher: Pipeline, observed: ObservedRows, exam: Exam) -> RowScorer:
        """The pipeline a cell learns from, fitted to the same rows once."""
        if teacher.key not in self._fitted:
            self._fitted[teacher.key] = self._teacher(teacher, observed, exam)
        score = self._fitted[teacher.key].score
        if not isinstance(score, RowScorer):
            owner = f"readout {cell.readout.name!r}"
            raise bad_argument(owner, "teacher", "one that gives scores", teacher.readout.name)
        return score

    def _teacher(self, cell: Pipeline, observed: ObservedRows, exam: Exam) -> FittedCell:
        """A teacher, from its folder or fitted now; a fine-tuned one is stored like an encoder.

        Other teachers are not stored: their heads are of many kinds, and quickly fitted.
        """
        with self.store.place(cell) as place:
            stored = self.store.stored(place, cell, KeptTeacher)
            if stored is not None:
                caught_warnings = list(stored[1].warnings)
                fitted = FittedCell(RowScorer.of_tuned(restored(*stored, self.device), self.device))
            else:
                caught_warnings = []
                with _collecting(caught_warnings):
                    trained = self.store.encoder(cell.encoder_cell, observed, exam)
                    fitted = self._fit(cell, self._embedded(cell, trained, observed), exam)
                tuned = fitted.score.tuned if isinstance(fitted.score, RowScorer) else None
                if tuned is not None and isinstance(tuned.encoder, Encoder):
                    self.store.save(
                        place, cell, tuned.encoder, observed.x.shape[1:], kept_teacher(tuned, caught_warnings)
                    )
        for text in caught_warnings:
            warnings.warn(text, RunWarning, stacklevel=2)
        return fitted

    def _line(
        self,
        cell: Cell,
        metrics: Metrics,
        began: float,
        caught_warnings: list[str],
        encoder_seconds: float | None = None,
    ) -> Outcome:
        for name, value in metrics.items():
            if not is_number(value):
                raise RunError(f"bench: {name} is {value}, not a finite number")
        seconds, now = round(time.perf_counter() - began, 2), datetime.now(UTC).isoformat(timespec="milliseconds")
        line = ResultLine(
            cell,
            metrics,
            seconds,
            now,
            revisions_of(cell),
            self.origin,
            encoder_seconds,
            tuple(sorted(set(caught_warnings))),
        )
        return Outcome(cell.key, line=line)


def _after(epoch: int, trained: TrainedEncoder) -> Metrics:
    """What was seen of an encoder after one of its epochs."""
    seen = trained.training.epochs[str(epoch)]
    metrics = {"accuracy": seen["knn"], "knn": seen["knn"], "loss": round(seen["loss"], 6)}
    prior = trained.training.given_prior
    return metrics if prior is None else {**metrics, "encoder_given_prior": round(prior, 5)}


def _grades(fitted: FittedCell, exam: Exam) -> Metrics:
    return {} if fitted.score is None else exam.grade(fitted.score(exam.test_rows))


def _known(cell: Cell, fitted: FittedCell, exam: Exam, trained: TrainedEncoder | None = None) -> Metrics:
    """What is known besides the grades: how good the pseudo-labels are, π̂, π as it was given, the last loss."""
    metrics: Metrics = {}
    if fitted.pseudo is not None and not cell.is_reference:
        metrics["pseudo_label_accuracy"] = exam.right(fitted.pseudo)
        metrics["estimated_prior"] = round(fitted.pseudo.prior, 5)
    if fitted.given_prior is not None:
        metrics["given_prior"] = round(fitted.given_prior, 5)
    if trained is not None:
        if trained.training.loss is not None:
            metrics["loss"] = round(trained.training.loss, 6)
        if trained.training.given_prior is not None:
            metrics["encoder_given_prior"] = round(trained.training.given_prior, 5)
    return metrics


@contextmanager
def _collecting(caught_warnings: list[str]) -> Iterator[None]:
    """Collect warnings instead of showing them."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("default")
        yield
    caught_warnings += [" ".join(str(warning.message).split()) for warning in records]


def outcome_of(error: Exception, cell: Cell) -> Outcome:
    """The outcome of a cell that raised an error: skipped or failed, with the reason in one line."""
    if isinstance(error, SkipError | MissingDataError):
        return Outcome(cell.key, skipped=str(error))
    text = " ".join(str(error).split())[:300]
    if isinstance(error, InputError | RunError):
        return Outcome(cell.key, failed=text)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Outcome(cell.key, failed=f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})")
