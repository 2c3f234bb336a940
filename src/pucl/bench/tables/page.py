"""The page of the documentation that compares methods on real tables, generated from stored lines alone."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path

from pucl.bench.tables.layout import as_markdown
from pucl.bench.tables.line import FitLine, SkipLine, TableLine
from pucl.bench.tables.measure import FEWEST
from pucl.bench.tables.methods import METHODS
from pucl.bench.tables.sets import ROLES, names_of
from pucl.bench.tables.suite import newest
from pucl.files import replace_file

HEAD = """# Tables: how pucl compares

<!-- Written by 'pucl bench tables' from results/tables.jsonl; do not edit. -->

This page compares `PUClassifier` with other PU methods on real tables whose truth is known: how well they rank and
decide, what they say of π, whether what they promise is true, and what they cost.

## Methods

A method without a mark gets rows and PU labels only. * A reference, which is told something of the truth; it takes no
part in ranks and gaps. References are no strict ceilings: boosted trees overfit small tables.
"""
CONDITIONS = f"""
- **Rows.** Each table is split 70/30, stratified by the truth. Of the positive training rows a share is labelled,
  drawn completely at random; all other training rows are unlabelled, and π is the share of positives among those. A
  table is skipped for shares that leave fewer than {FEWEST} labelled rows.
- **The same for all.** Every method gets the same rows, labels and seed. Test rows are used for AUC and F1 only, after
  the fit. Promised figures are compared with the truth on the unlabelled training rows.
- **Settings.** Each method has one setting for all tables, in `src/pucl/bench/tables/methods.py`; columns are
  standardised for pulearn and pu-toolbox, and `pucl` is used as it is. pucl's defaults were chosen on the development
  tables, so the tables that are held back say more.
- **Time.** CPU seconds of the fit, on one thread. The first fit of a process also loads the packages of the method.
  Methods ran on different days and machines: a factor of two says something, a tenth does not.
"""
ROLE_TEXT = """## Choosing and confirming

Choices about pucl's defaults are made on *development* tables and confirmed on tables that are *held back*. A table is
for development if the SHA-256 of its name, in hexadecimal, is below 44. So its role depends on nothing but its name
and does not change when a table is added. The tables below had their roles before any method was run on them.

The rankers and their weights were fixed before a held-back table was seen. When a share is an estimate was not: an
earlier form of that rule failed on held-back tables and was changed. Its next form was chosen on other tables and
images, and then run once on the held-back ones. One part of it, whether the scores themselves tell P from U among the
highest, was added because of three fits of another table, and was run on all tables afterwards (LOG.md).
"""
TAIL = """## Run it yourself

```sh
pip install -e '.[bench]' pulearn 'pu-toolbox[torch]'     # the last two are optional: without them they are skipped
pucl bench run paper/tables.toml                          # stop it at any time; the same command continues
pucl bench run paper/tables.toml --only table=pima,german --only method=pucl --only seed=0
pucl bench table tables                                   # or --format markdown, csv
pucl bench tables                                         # writes this page
```

The grid `paper/tables.toml` is a TOML file with four keys, each a value or a list:

| key | meaning |
|---|---|
| `tables` | `"development"`, `"held back"`, or names of tables |
| `shares` | of the positive training rows, labelled |
| `seeds` | of the split, of the labels and of the methods |
| `methods` | names from the list above |

`--jobs N` runs N processes, each with one thread. `--dry-run` shows what would be run and skipped, `--force` runs all
again. Every fit is one line of `results/tables.jsonl` with its measures, versions, hardware and commit; the last line
of a fit counts, so that files from several machines can simply be appended. A method that fails on a split is a line
with the error. The next run tries it again.

## Add a table or a method

A table is one entry of `TABLES` in `src/pucl/bench/tables/sets.py`: a name and a function that returns the rows, a
matrix of numbers, and the truth, true for positives. Its role follows from its name.

A method is one entry of `METHODS` in `src/pucl/bench/tables/methods.py`: a function that takes a `Given` (rows `x`,
labels `s`, a seed) and returns a `Fitted`, whose `answer` gives decisions and scores of any rows:

```python
def centroid(given: Given) -> Fitted:
    \"\"\"Rows are scored by their distance to the mean of P; the median of U is the threshold.\"\"\"
    mean = given.x[given.s].mean(axis=0)
    threshold = np.median(-np.linalg.norm(given.x[~given.s] - mean, axis=1))

    def answer(x: Floats) -> Answer:
        score = -np.linalg.norm(x - mean, axis=1)
        return score > threshold, score

    return Fitted(answer)
```

with `"centroid": Method(centroid, "distance to the mean of P")` as its entry. A `Fitted` may also hold out-of-fold
scores of the training rows (`own`), estimates of π (`priors`) and promised figures (`promised`); what is there is
measured. `Method` has `needs` for a package that may be missing, and `knows` for a reference that is given the truth.
"""


def tables_page(lines: Iterable[TableLine]) -> str:
    """The page: methods, conditions, the summary, and how to run and extend the suite."""
    stored = list(lines)
    roles = "\n".join(f"- **{role}**: {', '.join(names_of(role))}" for role in ROLES)
    conditions = f"## Conditions\n{CONDITIONS}{_measured(stored)}\n"
    results = f"## Results\n\n{as_markdown(stored, level=3)}"
    return "\n".join([HEAD, _methods(), conditions, results, f"{ROLE_TEXT}\n{roles}\n", TAIL])


def write_page(out: Path, lines: Iterable[TableLine]) -> None:
    """Write the page, whole or not at all."""
    page = tables_page(lines)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, page.encode())


def _methods() -> str:
    rows = [
        f"| {name}{'*' * bool(method.knows)} | {method.about}{f'; told {method.knows}' if method.knows else ''} |"
        for name, method in METHODS.items()
    ]
    return "\n".join(["| method | what it does |", "|---|---|", *rows, ""])


def _measured(lines: list[TableLine]) -> str:
    """What was run, with which versions, where, and by which commits; empty without lines."""
    fits = list(newest(lines).values())
    if not fits:
        return ""
    shares, seeds = (sorted({getattr(line.cell, what) for line in fits}) for what in ("share", "seed"))
    tables, methods = ({getattr(line.cell, what) for line in fits} for what in ("table", "method"))
    skips = {(line.table, line.share) for line in lines if isinstance(line, SkipLine)}
    places = set(product(tables, shares)) - skips
    left = len(places) * len(seeds) * len(methods) - len(fits)
    listed = ", ".join(f"{share:g}" for share in shares)
    versions = sorted({f"{name} {number}" for line in fits for name, number in line.origin.versions.items()})
    return "\n".join(
        [
            f"- **Runs.** {len(fits):,} fits of {len(methods)} methods on {len(tables)} tables, labelled shares "
            f"{listed}, seeds {', '.join(map(str, seeds))};\n  {len(skips)} pairs of table and share have too few "
            f"labels{f', {left:,} fits are still to be run' if left else ''}.",
            f"- **Versions.** {', '.join(versions)}.\n  {_all(fits, 'hardware')}; commit {_all(fits, 'commit')}.",
        ]
    )


def _all(fits: list[FitLine], what: str) -> str:
    return ", ".join(sorted({str(getattr(line.origin, what)) for line in fits}))
