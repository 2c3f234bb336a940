"""Places: where a cell is measured, and all that decides which rows are labelled and which are unlabelled."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from pucl.bench.grid.decode import Option, decode
from pucl.data.observe import LABELLED
from pucl.errors import bad_argument, blamed_on, check_count, check_known, check_share

OWNER = "a cell"
RANDOM = LABELLED[0]


@dataclass(frozen=True)
class Place:
    """Where a cell is measured: all that decides which rows are labelled.

    Attributes:
        task: a registered data set.
        setting: how P and U were drawn, see `pucl.make_pu`.
        n_labelled: n_P, the number of labelled positives.
        seed: of the split and of everything else that is drawn.
        n_unlabelled: n_U; None for as many rows as there are.
        true_prior: π, the share of positives wanted inside U; None for that of the data.
        labelled: "random", or "balanced" for equally many of every positive class.
    """

    task: str
    setting: str
    n_labelled: int
    seed: int
    n_unlabelled: int | None = None
    true_prior: float | None = None
    labelled: str = RANDOM

    @property
    def changes(self) -> dict[str, Option]:
        """What differs from the benchmark's own draw: n_U, π, how the labelled rows are drawn."""
        return {name: getattr(self, name) for name, usual in USUAL.items() if getattr(self, name) != usual}

    @property
    def words(self) -> str:
        """The place for people: what is usual is left out."""
        setting = {} if self.setting == usual_setting(self.task) else {"setting": self.setting}
        more = [f" {name}={value}" for name, value in (setting | self.changes).items()]
        return f"{self.task} {self.n_labelled} seed {self.seed}{''.join(more)}"

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `pucl.observe` besides the data set and the number of labelled rows."""
        own = {"setting": self.setting, "n_unlabelled": self.n_unlabelled, "prior": self.true_prior}
        return {**own, "labelled": self.labelled, "seed": self.seed}

    def to_dict(self) -> dict[str, Option]:
        """As a part of a cell's table; what is usual is left out."""
        needed = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in USUAL}
        return {**needed, **self.changes}

    @classmethod
    def taken_from(cls, table: dict[str, Option]) -> "Place":
        """The place in the table of a cell, which is taken out of it."""
        own = {field.name: table.pop(field.name, USUAL.get(field.name)) for field in fields(cls)}
        with blamed_on(OWNER):
            place = decode(cls, own, owner="place")
            check_place("place", place)
        return place


USUAL: Mapping[str, Option] = MappingProxyType({"n_unlabelled": None, "true_prior": None, "labelled": RANDOM})


def usual_setting(task: str) -> str:
    """The setting of a task in the paper, and the default."""
    return "single-set" if task.startswith("stl") else "case-control"


def check_place(owner: str, place: Place) -> None:
    """Refuse values that no data set could have; whether this one has so many rows is seen when it is loaded."""
    if place.n_unlabelled is not None:
        check_count(owner, "n_unlabelled", place.n_unlabelled)
    if place.true_prior is not None:
        check_share(owner, "true_prior", place.true_prior)
        if place.setting == "single-set":
            allowed = "left out in the single-set setting, where U is what remains"
            raise bad_argument(owner, "true_prior", allowed, place.true_prior)
    check_known(owner, "value of labelled", [place.labelled], LABELLED)
