"""The page of the baselines: what each computes, its fidelity and cost, and our numbers next to the published ones."""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pucl.bench.grid.cells import ORACLE, Baseline, Cell
from pucl.bench.grid.decode import Options, as_table, read_toml
from pucl.bench.pages.layouts import ours
from pucl.bench.pages.tables import Measured, label_of, latest_variant, measured, preset_of
from pucl.bench.results.cost import is_card
from pucl.bench.results.line import ResultLine
from pucl.bench.results.published import METHODS, TABLES, Published, published
from pucl.bench.results.store import newest
from pucl.errors import bad_argument, check_known
from pucl.files import replace_file
from pucl.registry import Entry, entries

OWNER = "pucl bench baselines"
TASKS: Mapping[str, str] = MappingProxyType(
    {
        "fmnist1": "F-MNIST-I",
        "fmnist2": "F-MNIST-II",
        "cifar1": "CIFAR-I",
        "cifar2": "CIFAR-II",
        "cifar3": "CIFAR-III",
    }
)
NEAR = 2.0  # points from the published number that need no explanation
NOTHING = "–"
HEAD = """# Baselines

<!-- Written by 'pucl bench baselines' from the registry and results/benchmark.jsonl; do not edit. -->

Every method takes rows and PU labels and returns a scorer, through one function or one estimator:

```python
pucl.PUBaseline("nnpu", prior=0.4).fit(X, s).predict(X)
pucl.fit_baseline("vpu", x, s, settings=pucl.settings_of("vpu", "cifar1"))
```

`pucl bench run paper/baselines1.toml` runs them with their authors' settings.

Where P was labelled out of one set, U has fewer positives than the population. With `setting="single-set"`, which the
benchmark passes on for such tasks, `upu`, `nnpu`, `dist_pu` and `vpu` take means over the population from P ∪ U.
"""


@dataclass(frozen=True)
class MethodNotes:
    """What the docstring of a method says.

    Attributes:
        fidelity: where our version comes from.
        differs: every place where it differs from the author's code.
        presets: the author's settings.
    """

    fidelity: str
    differs: tuple[str, ...]
    presets: str

    @classmethod
    def of(cls, entry: Entry) -> "MethodNotes":
        """Read from the docstring; what is not there is empty."""
        text = inspect.getdoc(entry.function) or ""
        match = re.search(r"^Differs:\n((?:[ \t]+.*\n?|\n(?=[ \t]))*)", text, re.MULTILINE)
        points = re.split(r"^\s*- ", match[1], flags=re.MULTILINE)[1:] if match else []
        return cls(_paragraph(text, "Fidelity"), tuple(_line(point) for point in points), _paragraph(text, "Presets"))


def baselines_page(lines: Iterable[ResultLine], notes: Mapping[str, Mapping[str, str]]) -> str:
    """The page, from results and from notes by task and method on numbers that are not near the published ones."""
    stored = [line for line in newest(lines).values() if isinstance(line.cell, Baseline) and not line.cell.changes]
    known = entries("baselines")
    documented = {name: MethodNotes.of(entry) for name, entry in known.items()}
    return "\n".join(
        [
            HEAD,
            "## Overview\n",
            _overview(known, documented),
            "## Numbers\n",
            _numbers(known, stored, notes),
            "## Differences from the authors' code\n",
            _common(),
            *(_section(known[name], about) for name, about in documented.items()),
        ]
    )


def write_page(out: Path, lines: Iterable[ResultLine], notes: Path) -> None:
    """Write the page, whole or not at all."""
    page = baselines_page(lines, read_notes(notes))
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, page.encode())


def read_notes(path: Path) -> dict[str, dict[str, str]]:
    """Explanations by task and method from a TOML file; unknown names are errors."""
    owner, content = f"{OWNER}: --notes {path}", read_toml(OWNER, "--notes", path)
    check_known(owner, "task", content, TASKS)
    notes: dict[str, dict[str, str]] = {task: {} for task in content}
    for task, texts in content.items():
        table = as_table(owner, task, texts)
        check_known(f"{owner}: {task}", "baselines", table, entries("baselines"))
        for method, text in table.items():
            if not isinstance(text, str):
                raise bad_argument(owner, f"{task}.{method}", "a text", text)
            notes[task][method] = text
    return notes


def _overview(known: Mapping[str, Entry], documented: Mapping[str, MethodNotes]) -> str:
    rows = ["| name | what it does | needs π | fidelity | from |", "|---|---|:-:|---|---|"]
    for name, entry in known.items():
        prior = "yes" if entry.needs_prior else "no"
        kind = documented[name].fidelity.split("(")[0].split(",")[0].split(";")[0].split(":")[0].strip(" .")
        rows.append(f"| `{name}` | {entry.summary} | {prior} | {kind} | {entry.reference} |")
    return "\n".join([*rows, ""])


def _numbers(known: Mapping[str, Entry], stored: list[ResultLine], notes: Mapping[str, Mapping[str, str]]) -> str:
    """A row for every method of the paper's tables, a footnote for every number that is not near the published one.

    Tasks without any result are left out.
    """
    texts: list[str] = []
    ran = {line.cell.place.task for line in stored if isinstance(line.cell, Baseline) and line.cell.method in METHODS}
    tasks = {task: title for task, title in TASKS.items() if task in ran}
    rows = [
        "| method | " + " | ".join(f"{title}: paper | ours | s" for title in tasks.values()) + " |",
        "|---|" + "---:|---:|---:|" * len(tasks),
    ]
    for name, title in METHODS.items():
        if name not in known:
            continue
        parts = []
        for task in tasks:
            paper, n = _published(title, task)
            entry, seconds, changed = _ours(stored, name, task, n)
            entry.published = paper
            far = entry.difference is not None and abs(entry.difference) > NEAR
            said = [changed, notes.get(task, {}).get(name, "not explained yet") if far else ""]
            mark = ""
            if any(said):
                texts.append(f"**{title}, {TASKS[task]}**: {' '.join(filter(None, said))}")
                mark = f" [{len(texts)}]"
            parts.append(f"{_theirs(paper, n)} | {ours(entry) if entry.values else NOTHING}{mark} | {seconds}")
        rows.append(f"| {title} | " + " | ".join(parts) + " |")
    legend = (
        "Test accuracy in %, with 1,000 labelled positives unless stated otherwise. Ours: mean ± standard deviation "
        "(seeds), with the true prior where the method needs one; last epoch, or the best by PU validation. s: seconds "
        f"of one run, with several running on the same card{_elsewhere(stored, tasks)}. A number in brackets refers to "
        "a note below: our result differs by more than 2 points, or was not run with the settings of the package."
    )
    return "\n".join([*rows, "", legend, "", *(f"{at}. {text}" for at, text in enumerate(texts, start=1)), ""])


def _elsewhere(stored: list[ResultLine], tasks: Mapping[str, str]) -> str:
    """The tasks of which nothing was run on a card."""
    on_card = {line.cell.place.task for line in stored if is_card(line.origin.hardware)}
    titles = [title for task, title in tasks.items() if task not in on_card]
    return f" ({' and '.join(titles)} on one core of a processor)" if titles else ""


def _published(title: str, task: str) -> tuple[Published | None, int]:
    """The paper's number and its number of labelled rows: 1,000 if there is such a one."""
    for n in (1000, 3000):
        for table in TABLES:
            if (title, (task, n)) in published(table):
                return published(table)[title, (task, n)], n
    return None, 1000


def _theirs(paper: Published | None, n: int) -> str:
    if paper is None:
        return NOTHING
    return f"{paper.accuracy} ± {paper.std}" + ("" if n == 1000 else f" ({n:,} labelled)")


def _ours(stored: list[ResultLine], name: str, task: str, n: int) -> tuple[Measured, str, str]:
    """Our numbers, the seconds of a run, and in which settings it was not the preset; runs with the preset go first."""
    lines = [line for line in stored if _is_of(line.cell, name, task, n) and _as_published(line.cell)]
    if not lines:
        return Measured(), NOTHING, ""
    chosen = latest_variant(lines)
    timed = [line for line in chosen if is_card(line.origin.hardware)] or chosen
    mean = sum(line.seconds for line in timed) / len(timed)
    cell = chosen[0].cell
    changed = _changed(cell.settings, preset_of(cell)) if isinstance(cell, Baseline) else ""
    return measured(chosen), f"{mean:.0f}", changed


def _is_of(cell: Cell, name: str, task: str, n: int) -> bool:
    return isinstance(cell, Baseline) and (cell.method, cell.place.task, cell.place.n_labelled) == (name, task, n)


def _as_published(cell: Cell) -> bool:
    """Whether a run has the encoder and the setting of a table of the paper and no estimated prior."""
    labels = [label_of(table, cell) for table in TABLES]
    return cell.prior in (None, ORACLE) and any(label.recipe == NOTHING for label in labels)


def _changed(used: Options, preset: Options) -> str:
    """In which settings a run differs from the preset; options that are off are in neither."""
    names = [name for name in sorted({*used, *preset}) if used.get(name) != preset.get(name)]
    parts = [f"{name} = {used.get(name, 'off')} instead of {preset.get(name, 'off')}" for name in names]
    return f"Run with {', '.join(parts)}." if parts else ""


def _common() -> str:
    """The differences that all of them share, from the docstring of the package."""
    import pucl.baselines

    text = inspect.getdoc(pucl.baselines) or ""
    return "All of them:\n\n" + text[text.index("\n- ") + 1 :].strip() + "\n"


def _section(entry: Entry, about: MethodNotes) -> str:
    differs = [f"- {point}" for point in about.differs]
    presets = [f"Presets: {about.presets}", ""] if about.presets else []
    return "\n".join([f"### {entry.name}", "", f"{about.fidelity}", "", *presets, *differs, *([""] if differs else [])])


def _paragraph(text: str, name: str) -> str:
    match = re.search(rf"^{name}: ((?:.+\n?)+)", text, re.MULTILINE)
    return _line(match[1]) if match else ""


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line[:1].upper() + line[1:]
