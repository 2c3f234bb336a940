"""One unit of work: the cells that share an encoder, or one baseline, from the data to finished lines of results."""

import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pucl.bench.grid.cells import Config, encoder_of, is_baseline, is_reference, key_of, teacher_of
from pucl.bench.grid.recipes import WITHHELD
from pucl.bench.run.encoding import Kept, Trained
from pucl.bench.run.fingerprint import Sources
from pucl.bench.run.problem import Exam, Fitted, Problem, SkipError, pose
from pucl.bench.run.provenance import provenance
from pucl.bench.run.stages import Frozen, Score, fit_method, fit_top
from pucl.bench.run.teachers import restored, save_teacher
from pucl.device import pick_device
from pucl.errors import InputError, MissingDataError, RunError, RunWarning, bad_argument, is_number


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: a line of results, the reason why it was skipped, or the error it failed with."""

    key: str
    line: Config | None = None
    skipped: str | None = None
    failed: str | None = None


class Bench:
    """Runs units on one device; knows where encoders are kept and what every line says of its origin."""

    def __init__(self, encoders: Path, device: str | None, commit: str | None = None, *, anew: bool = False) -> None:
        self.device = str(pick_device(device))
        self.sources = Sources()
        self.kept = Kept(encoders, self.device, self.sources, anew)
        self.origin = provenance(self.device, commit)
        self._fitted: dict[str, Fitted] = {}  # of the unit at work and its teachers, by key

    def run(self, unit: list[Config]) -> Iterator[Outcome]:
        """The outcomes of the cells of a unit, each as soon as it is known."""
        left = list(unit)
        try:
            problem, exam = pose(unit[0])
            make = self._baseline if is_baseline(unit[0]) else self._pipelines
            for outcome in make(unit, problem, exam):
                left.pop(0)
                yield outcome
        except Exception as error:  # of what all of them share
            yield from (outcome_of(error, cell) for cell in left)

    def _pipelines(self, unit: list[Config], problem: Problem, exam: Exam) -> Iterator[Outcome]:
        heard: list[str] = []
        self._fitted.clear()
        with _hearing(heard):
            trained = self.kept.encoder(encoder_of(unit[0]), problem, exam)
            frozen = self._frozen(unit[0], trained, problem, exam)
        for cell in unit:
            began, said = time.perf_counter(), list(heard)
            try:
                with _hearing(said):
                    fitted = self._fitted[key_of(cell)] = fit_top(cell, frozen, exam)
                    metrics = exam.grade(fitted, trained.encoder, self.device)
                yield self._line(cell, _more(cell, fitted, exam, trained) | metrics, began, said, trained.seconds)
            except Exception as error:
                yield outcome_of(error, cell)

    def _frozen(self, cell: Mapping[str, Any], trained: Trained, problem: Problem, exam: Exam) -> Frozen:
        withheld = cell["recipe"].get(WITHHELD, 0)
        return Frozen(trained.encoder, problem, self.device, lambda other: self._taught(other, problem, exam), withheld)

    def _taught(self, cell: Mapping[str, Any], problem: Problem, exam: Exam) -> Score:
        """The pipeline a cell learns from, fitted to the problem's rows."""
        about = teacher_of(cell)
        key = key_of(about)
        if key not in self._fitted:
            self._fitted[key] = self._teacher(about, problem, exam)
        fitted = self._fitted[key]
        if not isinstance(fitted.score, Score):
            raise bad_argument(f"top {cell['top']!r}", "teacher", "one that gives scores", about["top"])
        return fitted.score

    def _teacher(self, about: Config, problem: Problem, exam: Exam) -> Fitted:
        """A teacher, from its folder or fitted now; one that is fine-tuned is kept beside the encoders, as they are."""
        code, said = self.sources.code_of(about), list[str]()
        with self.kept.place(about) as place:
            found = self.kept.stored(place, about, code)
            if found is not None:
                said, fitted = found[1]["warnings"], Fitted(restored(*found, self.device))
            else:
                with _hearing(said):
                    trained = self.kept.encoder(encoder_of(about), problem, exam)
                    fitted = fit_top(about, self._frozen(about, trained, problem, exam), exam)
                if isinstance(fitted.score, Score):
                    extra = {"config": about, "code": code, "warnings": said}
                    save_teacher(place, fitted.score, name=about["encoder"], rows=problem.x, extra=extra)
        for text in said:
            warnings.warn(text, RunWarning, stacklevel=2)
        return fitted

    def _baseline(self, unit: list[Config], problem: Problem, exam: Exam) -> Iterator[Outcome]:
        for cell in unit:
            began, said = time.perf_counter(), list[str]()
            with _hearing(said):
                fitted = fit_method(cell, problem, exam, self.device)
                metrics = exam.grade(fitted)
            yield self._line(cell, _more(cell, fitted, exam) | metrics, began, said)

    def _line(
        self, cell: Config, metrics: Config, began: float, said: list[str], encoder_seconds: float | None = None
    ) -> Outcome:
        for name, value in metrics.items():
            if not is_number(value):
                raise RunError(f"bench: {name} is {value}, not a finite number")
        seconds: Config = {"seconds": round(time.perf_counter() - began, 2)}
        if encoder_seconds is not None:
            seconds["encoder_seconds"] = encoder_seconds
        line = {
            "key": key_of(cell),
            "config": cell,
            "metrics": metrics,
            **seconds,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "code": self.sources.code_of(cell),
            **self.origin,
            **({"warnings": sorted(set(said))} if said else {}),
        }
        return Outcome(line["key"], line=line)


def _more(cell: Mapping[str, Any], fitted: Fitted, exam: Exam, trained: Trained | None = None) -> Config:
    """What is known besides the grades: how good the pseudo-labels are, π̂, π as it was told, the last loss."""
    found: Config = {}
    if fitted.pseudo is not None and not is_reference(cell):
        found["pseudo_label_accuracy"] = exam.right(fitted.pseudo)
        found["estimated_prior"] = round(fitted.pseudo.prior, 5)
    if fitted.told is not None:
        found["told_prior"] = round(fitted.told, 5)
    if trained is not None:
        found["loss"] = round(trained.loss, 6)
        if trained.told is not None:
            found["encoder_told_prior"] = round(trained.told, 5)
    return found


@contextmanager
def _hearing(said: list[str]) -> Iterator[None]:
    """Warnings are written down instead of shown."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        yield
    said += [" ".join(str(one.message).split()) for one in heard]


def outcome_of(error: Exception, cell: Config) -> Outcome:
    """What an error makes of a cell: skipped or failed, with the reason in one line."""
    if isinstance(error, SkipError | MissingDataError):
        return Outcome(key_of(cell), skipped=str(error))
    text = " ".join(str(error).split())[:300]
    if isinstance(error, InputError | RunError):
        return Outcome(key_of(cell), failed=text)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Outcome(key_of(cell), failed=f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})")
