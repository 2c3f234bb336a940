"""One wording for everything a user can get wrong: whose argument, what is allowed, what came."""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

# What people call: a function of the package, a class or a command; a thing may follow.
CALLED = re.compile(r"^(?:pucl(?:\.\w+)*(?: [a-z]+)*|[A-Z]\w*)(?:\([^)]*\))?(?=[,:] |$)")

# What one entry of a registered family is called.
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
    }
)


class InputError(ValueError):
    """What the user passed cannot be used; the message is one line and says what would have been accepted.

    Attributes:
        owner: who refuses: what the user called (``PUClassifier``, ``pucl.read``, ``pucl fit``), or a thing that was
            named (``encoder 'lenet5'``, ``smoke.toml``), or both (``pucl.read, column 'age'``).
        argument: which argument of it.
        problem: what is wrong, ready to follow the argument.
        allowed: what would have been accepted.
        got: what came, as text.
        unknown: the name that nothing is called by.
    """

    def __init__(
        self, problem: str, *, owner: str = "", argument: str = "", allowed: str = "", got: str = "", unknown: str = ""
    ) -> None:
        super().__init__(problem)
        self.allowed, self.got, self.unknown = allowed, got, unknown
        self._say(owner, argument, problem)

    def sign(self, owner: str, *, argument: str | None = None, problem: str | None = None) -> None:
        """Let `owner`, which the user called, say it in the place of a function below; a thing stays named."""
        thing = CALLED.sub("", self.owner, count=1)
        thing = f": {thing}" if thing == self.owner != "" else thing
        argument = self.argument if argument is None else argument
        self._say(f"{owner}{thing}".lstrip(",: "), argument, problem or self.problem)

    def _say(self, owner: str, argument: str, problem: str) -> None:
        self.owner, self.argument, self.problem = owner, argument, problem
        between = " " if self.allowed else ": "
        sentence = f"{argument}{between}{problem}" if argument else problem
        self.args = (f"{owner}: {sentence}" if owner else sentence,)


class MissingDataError(InputError):
    """The files of a data set are not there; the message says which, where they were looked for and how to get them."""


class RunError(RuntimeError):
    """A run that cannot go on: no memory, no disk, a loss that is NaN; the message is one line, with a way out."""


class RunWarning(UserWarning):
    """A run that goes on but looks wrong; one line, with what to do."""


def bad_argument(owner: str, argument: str, allowed: str, got: object) -> InputError:
    """``owner: argument must be allowed; got got``, ready to raise."""
    text = _short(got)
    return InputError(f"must be {allowed}; got {text}", owner=owner, argument=argument, allowed=allowed, got=text)


def unknown_name(family: str, name: object, known: Iterable[str]) -> InputError:
    """An unknown name of a registered family or of anything else, answered with the nearest one and the full list."""
    family = ENTRY.get(family, family)
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return InputError(f"unknown {family} {str(name)!r}: {hint}known: {', '.join(names)}", unknown=str(name))


def check_known(owner: str, family: str, names: Iterable[Any], known: Iterable[str]) -> None:
    """All names are known ones; the first that is not is answered as `unknown_name` does."""
    known = tuple(known)
    for name in names:
        if name not in known:
            error = unknown_name(family, name, known)
            error.sign(owner)
            raise error


@contextmanager
def signed_by(owner: str) -> Iterator[None]:
    """An input error of a function inside is said by `owner`, which the user called; also a decorator of functions.

    `pucl.pretrain: epochs must be …` inside of ``signed_by("PUEncoder")`` is `PUEncoder: epochs must be …`. What a
    thing or a file says (``encoder 'lenet5': x must be …``) is left as it is.
    """
    try:
        yield
    except InputError as error:
        if CALLED.match(error.owner) or (error.unknown and not error.owner):
            error.sign(owner)
        raise


@contextmanager
def blamed_on(part: str) -> Iterator[None]:
    """An input error inside is found in `part` of a file: ``part: message``, whatever function found it."""
    try:
        yield
    except InputError as error:
        error.sign("")
        raise type(error)(f"{part}: {error}", unknown=error.unknown) from None


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
        return not isinstance(value, bool | str) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _check_number(owner: str, argument: str, value: Any, allowed: str, *, low: float, high: float) -> float:
    if not (is_number(value) and low < value < high):
        raise bad_argument(owner, argument, allowed, value)
    return float(value)


def _short(value: object) -> str:
    own = isinstance(value, Described)  # our own words, often with a path in them, which people want whole
    text, most = (str(value), 300) if own else (repr(value), 80)
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Described(str):
    """A description of what came (``Described("a tensor of shape (3, 4)")``), printed without quotes."""

    __slots__ = ()
