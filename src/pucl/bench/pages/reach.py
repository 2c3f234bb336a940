"""Goals: our pipelines without a class prior, compared with the paper's numbers with the true one."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pucl.bench.grid import renames
from pucl.bench.grid.cells import Baseline, Cell
from pucl.bench.grid.decode import Options, as_tables, counts, decode, one_or_more, read_toml
from pucl.bench.grid.place import usual_setting
from pucl.bench.grid.readouts import BUILT_IN, STANDS_FOR
from pucl.bench.pages.layouts import NOTHING, ours
from pucl.bench.pages.tables import Measured, latest_variant, measured, taught_by
from pucl.bench.results.line import ResultLine
from pucl.bench.results.published import TABLES, published
from pucl.deprecation import with_new_names
from pucl.errors import Described, InputError, bad_argument, check_known, is_number
from pucl.registry import entries

OWNER = "pucl bench leaderboard"
GOAL = "goal"
PLACE, PIPELINE, METHOD = ("tasks", "n_labelled"), ("encoder", "recipe", "readout"), ("method",)
NAMES = ("recipe", "readout", *METHOD, "objective", "ceiling")
NOT_RUN = "not run"


@dataclass(frozen=True)
class Goal:
    """A pipeline or baseline of ours on one task, shown whatever its result, and the accuracy it should reach.

    Attributes:
        method: a baseline, which has no encoder, recipe and readout.
        ceiling: the readout that sees the truth on the same encoder; None where there is none.
        goal: an accuracy in per cent; None for that of the paper's puNCE, which is given the true prior.
    """

    task: str
    n_labelled: int
    encoder: str | None = None
    recipe: str | None = None
    readout: str | None = None
    method: str | None = None
    objective: str = "pucl"
    ceiling: str | None = None
    goal: float | None = None

    @property
    def accuracy(self) -> float | None:
        """The accuracy to reach."""
        if self.goal is not None:
            return self.goal
        method = "puNCE" if self.readout == "knn" else "puNCE(puPL)"
        numbers = (published(table).get((method, (self.task, self.n_labelled))) for table in TABLES)
        return next((number.accuracy for number in numbers if number is not None), None)


def read_goals(path: Path, stored: Iterable[str] = ()) -> list[Goal]:
    """The goals of a TOML file, in its order: every ``[[goal]]`` for all of its tasks and numbers of labelled rows.

    Their readouts are built-in ones, those of the grids in the same folder, or those of `stored` results.
    """
    owner, content = f"{OWNER}: --goals {path}", read_toml(OWNER, "--goals", path)
    blocks = as_tables(owner, GOAL, content.get(GOAL))
    check_known(owner, "key", content, (GOAL,))
    readouts = {*BUILT_IN, *STANDS_FOR, *stored, *_defined_beside(path)}
    blocks = [with_new_names(owner, block, renames.TEACHER) for block in blocks]
    return [goal for block in blocks for goal in _goals(owner, block, readouts)]


def _goals(owner: str, block: Options, readouts: Iterable[str]) -> list[Goal]:
    """One ``[[goal]]``, its values checked."""
    alone = "method" in block
    needed, optional = (*PLACE, *(METHOD if alone else PIPELINE)), (*(() if alone else ("objective", "ceiling")), GOAL)
    wrong = sorted({*block} - {*needed, *optional} | ({*needed} - {*block}))
    if wrong:
        allowed = f"one with {', '.join(needed)} and, if needed, {', '.join(optional)}"
        raise bad_argument(owner, f"a [[{GOAL}]]", allowed, Described(f"{', '.join(wrong)} missing or unknown"))
    tasks = one_or_more()(owner, "tasks", block["tasks"])
    numbers = counts(low=1)(owner, "n_labelled", block["n_labelled"])
    goal = _accuracy(owner, block.get(GOAL))
    names = {key: decode(str, block[key], owner=owner, key=key) for key in NAMES if key in block}
    check_known(f"{owner}: tasks", "datasets", tasks, entries("datasets"))
    for key, family in (("objective", "losses"), ("method", "baselines")):
        if key in names:
            check_known(f"{owner}: {key}", family, [names[key]], entries(family))
    for key in ("readout", "ceiling"):
        if key in names:
            check_known(owner, key, [names[key]], readouts)
            names[key] = STANDS_FOR.get(names[key], names[key])
    encoders = {} if alone else {task: _encoder(owner, block["encoder"], task) for task in tasks}
    return [Goal(task, n, encoders.get(task), **names, goal=goal) for n in numbers for task in tasks]


def _encoder(owner: str, given: object, task: str) -> str:
    """The encoder of a goal for one task: a name, or a table of names by task."""
    value = given.get(task) if isinstance(given, Mapping) else given
    encoder = decode(str, value, owner=owner, key="encoder")
    check_known(f"{owner}: encoder", "encoders", [encoder], entries("encoders"))
    return encoder


def _accuracy(owner: str, goal: object) -> float | None:
    if goal is None:
        return None
    if not isinstance(goal, int | float) or not is_number(goal) or not 0 < goal <= 100:
        raise bad_argument(owner, GOAL, "an accuracy in per cent", goal)
    return goal


def _defined_beside(path: Path) -> set[str]:
    """The readouts that the grids of the same folder define."""
    names: set[str] = set()
    for grid in path.parent.glob("*.toml"):
        with suppress(InputError):  # other TOML files in that folder
            content = renames.renamed(read_toml(OWNER, "--goals", grid), renames.GRID)
            defined = content.get("readout")
            names.update(defined if isinstance(defined, Mapping) else ())
    return names


def as_markdown(goals: Iterable[Goal], lines: Iterable[ResultLine]) -> str:
    """One row for every goal: our accuracy, the one to reach, and that of the same encoder with all labels."""
    stored = [line for line in lines if line.cell.prior is None and not line.cell.changes]
    head = ["task", "labelled", "encoder", "ours", "accuracy", "to reach", "difference", "with every label", "gap"]
    rows = [head, ["---", "---:", "---", "---", "---:", "---:", "---:", "---:", "---:"]]
    for goal in goals:
        chosen = _chosen(goal, goal.readout, stored)
        entry = measured(chosen)
        ceiling = measured(_chosen(goal, goal.ceiling, stored) if goal.ceiling else [])
        words = [goal.method or f"{goal.recipe}, {goal.readout}", *(taught_by(chosen[0].cell) if chosen else [])]
        known = entry.values and goal.accuracy is not None
        both = entry.values and ceiling.values
        rows.append(
            [
                goal.task, f"{goal.n_labelled:,}", goal.encoder or NOTHING, ", ".join(words), _said(entry),
                NOTHING if goal.accuracy is None else f"{goal.accuracy:g}",
                f"{entry.mean - (goal.accuracy or 0):+.2f}" if known else NOTHING,
                _said(ceiling) if goal.ceiling else NOTHING, f"{entry.mean - ceiling.mean:+.2f}" if both else NOTHING,
            ]
        )  # fmt: skip
    note = (
        "Our methods are given no class prior. To reach: the accuracy of the paper's puNCE with puPL (for kNN: of "
        "puNCE), which is given the true prior; for larger encoders, a goal of our own. With every label: the same "
        "encoder, recipe and head with all training labels; where a method has a teacher, its student alone with them. "
        "Which pipeline stands for us follows one rule for each kind of encoder, written at the head of "
        "`paper/reach.toml`. Nothing is left out: what has no stored result is not run."
    )
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + ["", note, ""])


def _said(entry: Measured) -> str:
    return ours(entry) if entry.values else NOT_RUN


def _chosen(goal: Goal, readout: str | None, lines: Iterable[ResultLine]) -> list[ResultLine]:
    """Our results of a goal's pipeline with some readout, or of its baseline."""
    group = [line for line in lines if _fits(goal, readout, line.cell)]
    return latest_variant(group) if group else []


def _fits(goal: Goal, readout: str | None, cell: Cell) -> bool:
    place = cell.place
    if (place.task, place.n_labelled, place.setting) != (goal.task, goal.n_labelled, usual_setting(goal.task)):
        return False
    if isinstance(cell, Baseline):
        return cell.method == goal.method
    own = (cell.encoder, cell.objective, cell.recipe_name, cell.readout.name)
    return goal.method is None and own == (goal.encoder, goal.objective, goal.recipe, readout)
