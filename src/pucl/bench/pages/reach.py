"""Reach: our pipelines that are told no class prior against what the paper has with the true one."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.bench.grid.cells import Config, usual_setting
from pucl.bench.grid.readouts import BUILT_IN
from pucl.bench.grid.toml import as_name, as_names, as_numbers, as_tables, read_toml
from pucl.bench.pages.layouts import NOTHING, ours
from pucl.bench.pages.tables import Entry, by_seed, latest_variant, taught_by
from pucl.bench.results.published import TABLES, published
from pucl.errors import Described, InputError, bad_argument, check_known, is_number
from pucl.registry import entries

OWNER = "pucl bench leaderboard"
GOAL = "goal"
PLACE, PIPELINE, METHOD = ("tasks", "n_labelled"), ("encoder", "recipe", "top"), ("method",)
NAMES = (*PIPELINE, *METHOD, "objective", "ceiling")


@dataclass(frozen=True)
class Goal:
    """A pipeline or baseline of ours on one task, shown whatever it reaches, and what it is held against.

    Attributes:
        method: a baseline, which has no encoder, recipe and top.
        ceiling: the top that is told the truth on the same encoder; None where there is none.
        goal: an accuracy in per cent; None for that of the paper's puNCE, which is given the true prior.
    """

    task: str
    n_labelled: int
    encoder: str | None = None
    recipe: str | None = None
    top: str | None = None
    method: str | None = None
    objective: str = "pucl"
    ceiling: str | None = None
    goal: float | None = None

    @property
    def accuracy(self) -> float | None:
        """What is to be reached."""
        if self.goal is not None:
            return self.goal
        method = "puNCE" if self.top == "knn" else "puNCE(puPL)"
        found = (published(table).get((method, (self.task, self.n_labelled))) for table in TABLES)
        return next((number.accuracy for number in found if number is not None), None)


def read_goals(path: Path, stored: Iterable[str] = ()) -> list[Goal]:
    """The goals of a TOML file, in its order: every ``[[goal]]`` for all of its tasks and numbers of labelled rows.

    Their tops are built-in ones, those of the grids that lie beside the file, or those that `stored` results have.
    """
    owner, content = f"{OWNER}: --goals {path}", read_toml(OWNER, "--goals", path)
    blocks = as_tables(owner, GOAL, content.get(GOAL))
    check_known(owner, "key", content, (GOAL,))
    tops = {*BUILT_IN, *stored, *_defined_beside(path)}
    return [goal for block in blocks for goal in _goals(owner, block, tops)]


def _goals(owner: str, block: Mapping[str, Any], tops: Iterable[str]) -> list[Goal]:
    """One ``[[goal]]``, its values checked."""
    alone = "method" in block
    needed, optional = (*PLACE, *(METHOD if alone else PIPELINE)), (*(() if alone else ("objective", "ceiling")), GOAL)
    wrong = sorted({*block} - {*needed, *optional} | ({*needed} - {*block}))
    if wrong:
        allowed = f"one with {', '.join(needed)} and, if needed, {', '.join(optional)}"
        raise bad_argument(owner, f"a [[{GOAL}]]", allowed, Described(f"{', '.join(wrong)} missing or unknown"))
    tasks = as_names(owner, "tasks", block["tasks"])
    numbers = as_numbers(owner, "n_labelled", block["n_labelled"], low=1)
    goal = block.get(GOAL)
    if goal is not None and not (is_number(goal) and 0 < goal <= 100):
        raise bad_argument(owner, GOAL, "an accuracy in per cent", goal)
    names = {key: as_name(owner, key, block[key]) for key in NAMES if key in block}
    check_known(f"{owner}: tasks", "datasets", tasks, entries("datasets"))
    for key, family in (("encoder", "encoders"), ("objective", "losses"), ("method", "baselines")):
        if key in names:
            check_known(f"{owner}: {key}", family, [names[key]], entries(family))
    for key in ("top", "ceiling"):
        if key in names:
            check_known(owner, key, [names[key]], tops)
    return [Goal(task, n, **names, goal=goal) for n in numbers for task in tasks]


def _defined_beside(path: Path) -> set[str]:
    """The tops that the grids of the same folder define."""
    found: set[str] = set()
    for grid in path.parent.glob("*.toml"):
        with suppress(InputError):  # whatever else lies there
            tops = read_toml(OWNER, "--goals", grid).get("top")
            found.update(tops if isinstance(tops, Mapping) else ())
    return found


def as_markdown(goals: Iterable[Goal], lines: Iterable[Config]) -> str:
    """One row for every goal: ours, what is to be reached, and the same encoder told every training label."""
    stored = [line for line in lines if line["config"]["prior"] is None]
    head = ["task", "labelled", "encoder", "ours", "accuracy", "to reach", "difference", "told every label", "gap"]
    rows = [head, ["---", "---:", "---", "---", "---:", "---:", "---:", "---:", "---:"]]
    for goal in goals:
        chosen = _chosen(goal, goal.top, stored)
        told = _chosen(goal, goal.ceiling, stored) if goal.ceiling else []
        entry, ceiling = Entry(by_seed(chosen)), Entry(by_seed(told))
        words = [goal.method or f"{goal.recipe}, {goal.top}", *(taught_by(chosen[0]["config"]) if chosen else [])]
        known = entry.values and goal.accuracy is not None
        both = entry.values and ceiling.values
        rows.append(
            [
                goal.task, f"{goal.n_labelled:,}", goal.encoder or NOTHING, ", ".join(words), ours(entry),
                NOTHING if goal.accuracy is None else f"{goal.accuracy:g}",
                f"{entry.mean - (goal.accuracy or 0):+.2f}" if known else NOTHING,
                ours(ceiling), f"{entry.mean - ceiling.mean:+.2f}" if both else NOTHING,
            ]
        )  # fmt: skip
    note = (
        "Ours are told no class prior. To reach: the paper's puNCE with puPL (kNN: puNCE), given the true one, or a "
        "goal of our own for larger encoders. Told every label: a reference on the same encoder, linear for the recipe "
        "of the paper, else fine-tuned."
    )
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + ["", note, ""])


def _chosen(goal: Goal, top: str | None, lines: Iterable[Config]) -> list[Config]:
    """Our results of a goal's pipeline with some top, or of its baseline."""
    place = {"task": goal.task, "n_labelled": goal.n_labelled, "setting": usual_setting(goal.task)}
    if goal.method is None:
        made = {"encoder": goal.encoder, "objective": goal.objective, "recipe_name": goal.recipe, "top": top}
    else:
        made = {"method": goal.method}
    wanted = {**place, **made}
    group = [line for line in lines if wanted.items() <= line["config"].items()]
    return latest_variant(group) if group else []
