"""One trial: a component on a case, and whether the outcome is finite, one clear refusal, or a failure."""

import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from extremes.cases import Case
from pucl.data.own.rules import ColumnWarning
from pucl.errors import InputError, RunWarning

FINITE, REFUSED, FAILED = "finite", "refused", "failed"
SLOW = 60.0  # seconds that a trial may take
LONGEST = 400  # characters of a message
# Warnings of pucl that are plain UserWarnings.
OURS = re.compile(r"^(constant columns are dropped|column '|The share of positives is estimated)")


class Output(NamedTuple):
    """What a component gives: its name, its values, and the shape and range they must have."""

    name: str
    values: Any
    shape: tuple[int | None, ...] = ()
    low: float = -np.inf
    high: float = np.inf


Component = Callable[[Any, Any], Iterable[Output]]


@dataclass(frozen=True)
class Outcome:
    """How a trial ended, and why it failed or what was refused."""

    component: str
    case: str
    end: str
    why: str = ""
    seconds: float = 0.0


def trial(name: str, component: Component, case_name: str, case: Case) -> Outcome:
    """Run a component on a case and judge what comes of it."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            problems = [problem for output in component(case.rows, case.s) for problem in _problems(output)]
            end, why = (FAILED, "; ".join(problems[:3])) if problems else (FINITE, "")
        except InputError as refusal:
            end, why = _judged(refusal)
        except Exception as error:
            frame = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if "pucl" in f.filename), None)
            place = f" at {frame.filename.rsplit('/pucl/')[-1]}:{frame.lineno}" if frame else ""
            end, why = (
                FAILED,
                f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}{place}",
            )
    foreign = [each for each in caught if not _is_ours(each)]
    if foreign:
        first = foreign[0]
        place = first.filename.rsplit("site-packages/")[-1].rsplit("/pucl/")[-1]
        text = f"{first.category.__name__}: {first.message} ({place}:{first.lineno})"
        end, why = FAILED, f"{why}; {text}".lstrip("; ")
    seconds = time.process_time() - began
    if seconds > SLOW:
        end, why = FAILED, f"{why}; took {seconds:.0f} s"
    return Outcome(name, case_name, end, why, seconds)


def _judged(refusal: InputError) -> tuple[str, str]:
    """A refusal is one line that names an argument, a column or what is wrong."""
    text = str(refusal)
    if "\n" in text or len(text) > LONGEST or not (refusal.argument or refusal.unknown or text.startswith("X has")):
        return FAILED, f"not one clear line: {text!r}"
    return REFUSED, text


def _problems(output: Output) -> Iterable[str]:
    values = output.values.detach().cpu().double().numpy() if hasattr(output.values, "detach") else output.values
    values = np.asarray(values, dtype=np.float64)
    if output.shape and (
        values.ndim != len(output.shape)
        or any(want not in (None, is_) for want, is_ in zip(output.shape, values.shape, strict=True))
    ):
        yield f"{output.name} has shape {values.shape}, not {output.shape}"
    elif not np.isfinite(values).all():
        yield f"{output.name} is not finite"
    elif values.size and (values.min() < output.low or values.max() > output.high):
        yield f"{output.name} is from {values.min():g} to {values.max():g}"


def _is_ours(caught: warnings.WarningMessage) -> bool:
    ours = issubclass(caught.category, ColumnWarning | RunWarning)
    return ours or (caught.category is UserWarning and bool(OURS.match(str(caught.message))))
