"""Tables of the paper with our results in them."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from pucl.bench.grid.cells import Pipeline
from pucl.bench.pages.layouts import write
from pucl.bench.pages.tables import make_table, paired_p
from pucl.bench.results.published import TABLES, published
from pucl.errors import InputError

from bench_examples import (
    cells_of,
    line_of,
    results,
)


def test_a_table_computed_by_hand() -> None:
    table = make_table("pu-benchmark-1", results())
    assert table.older == 1 and table.commits == ("abc",) and len(table.columns) == 12
    rows = {(row.label.method, row.label.recipe): row for row in table.rows}
    column = ("fmnist1", 1000)
    literal = rows["puCL(puPL)", "paper"].entries[column]
    assert literal.mean == pytest.approx(53.0) and literal.std == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert literal.published is not None and literal.published.accuracy == 91.8
    assert literal.difference == pytest.approx(53 - 91.8)
    improved = rows["puCL(stacked)", "improved"].entries[column]
    assert improved.values == {0: 92.0, 1: 93.0} and improved.difference == pytest.approx(92.5 - 91.8)
    other = rows["puCL(stacked)", "improved, cnn7bn"].entries[column]
    assert other.best and other.mean == 94.0 and other.std is None and other.p_value is None
    # The best row has one seed, so that others are compared with the best of those that have more.
    assert improved.p_value is None and literal.p_value == pytest.approx(2 / np.pi * np.arctan(1 / 83), rel=1e-6)
    nnpu = rows["nnPU", "–"]
    assert nnpu.label.prior == "oracle" and nnpu.entries[column].difference == pytest.approx(88 - 89.7)
    assert nnpu.entries[column].outdated and not literal.outdated
    assert nnpu.entries["cifar1", 1000].values == {} and nnpu.entries["cifar1", 1000].published is not None
    assert rows["uPU", "published"].label.prior == "oracle" and rows["PAN", "published"].label.prior == "none"
    ceiling = rows["puCL(ceiling)", "improved"]
    assert ceiling.reference and not ceiling.entries[column].best and table.rows[-1] is ceiling
    assert [row.label.method for row in table.rows][:2] == ["uPU", "nnPU"]


def test_the_paired_test() -> None:
    lines = [line for line in results() if line.cell.encoder != "cnn7bn"]
    table = make_table("pu-benchmark-1", lines)
    rows = {row.label.method: row.entries.get(("fmnist1", 1000)) for row in table.rows}
    best, literal = rows["puCL(stacked)"], rows["puCL(puPL)"]
    assert best is not None and best.best and best.p_value is None and literal is not None
    # Differences 42 and 41 over seeds 0 and 1: t = 41.5 / (√½ / √2) = 83 with one degree of freedom.
    assert literal.p_value == pytest.approx(2 / np.pi * np.arctan(1 / 83), rel=1e-6)
    assert paired_p({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}) == 0.0 and paired_p({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}) == 1.0
    assert paired_p({0: 1.0, 1: 2.0}, {1: 1.0, 2: 2.0}) is None
    assert best.tested_against and not literal.tested_against
    a, b = {0: 1.0, 1: 2.0, 2: 4.0, 3: 0.0}, {0: 0.5, 1: 2.5, 2: 3.0, 4: 9.0}
    assert paired_p(a, b) == pytest.approx(ttest_rel([1.0, 2.0, 4.0], [0.5, 2.5, 3.0]).pvalue)


def test_the_forms_of_a_table() -> None:
    table = make_table("pu-benchmark-1", results())
    text = write(table, "text")
    assert "53.00 ± 3.61 (3)" in text and "[91.8 -38.80]" in text and "88.00 (1)*" in text and "[89.7† -1.70]" in text
    assert "92.50 ± 0.71 (2)‡" in text and "93.50 ± 0.71 (2)‡" not in text and "against ‡" in text
    assert "* Made by an earlier revision of the code" in text and "Not shown: 1 result of older configurations" in text
    markdown = write(table, "markdown")
    assert "| puCL(stacked) | improved, cnn7bn | none | **94.00 (1)**<br>[91.8 +2.20] | –<br>[89.2] |" in markdown
    widths = {line.count("|") for line in markdown.splitlines() if line.startswith("|")}
    assert widths == {10}
    rows = list(csv.DictReader(io.StringIO(write(table, "csv"))))
    (found,) = (
        row for row in rows if row["method"] == "puCL(puPL)" and (row["task"], row["n_labelled"]) == ("fmnist1", "1000")
    )
    assert (found["mean"], found["std"], found["seeds"], found["published"]) == ("53.0", "3.6056", "3", "91.8")
    assert (
        found["difference"] == "-38.8"
        and found["prior"] == "none"
        and float(found["p_value"]) == pytest.approx(0.00766975)
    )
    latex = write(table, "latex")
    assert latex.count(r"\begin{tabular}{lllrrrrrr}") == latex.count(r"\end{tabular}") == 2
    assert r"53.00 $\pm$ 3.61 (3); [91.8 -38.80]" in latex and r"\textbf{94.00 (1); [91.8 +2.20]}" in latex
    assert not re.search("[±†–]", latex.split("% Accuracy")[0])
    for form in ("text", "markdown", "latex"):
        assert "–" in write(make_table("weak-supervision-knn", []), form).replace("--", "–")
    with pytest.raises(InputError, match="unknown format 'html'"):
        write(table, "html")


def test_the_other_tables() -> None:
    cells = cells_of(tasks=["mnist1"], n_labelled=[1000], encoder="mlp", readouts=["knn"], seeds=[0, 1])
    table = make_table("weak-supervision-knn", [line_of(cell, accuracy=95.24) for cell in cells])
    (row,) = (row for row in table.rows if row.label.method == "puCL")
    assert row.entries["mnist1", 1000].difference == pytest.approx(1.0) and row.entries["mnist1", 1000].best
    cells = cells_of(
        objectives=["scl_pu"], tasks=["cifar1"], n_labelled=[1000], encoder="cnn7", readouts=["nnpu", "auto"]
    )
    table = make_table("downstream-head", [line_of(cell) for cell in cells])
    found = {row.label.method: row.entries.get(("cifar1", 1000)) for row in table.rows}
    numbers = {name: entry.published.accuracy for name, entry in found.items() if entry and entry.published}
    assert numbers["pu-sCL/nnPU"] == 88.4 and numbers["pu-sCL/stacked"] == 90.1 and numbers["puCL/puPL"] == 92.3
    assert make_table("pu-benchmark-2", results()).older == 0
    with pytest.raises(InputError, match="unknown table 'pu-benchmark': did you mean"):
        make_table("pu-benchmark", [])


def test_published_numbers_are_the_reference() -> None:
    assert sum(len(published(table)) for table in TABLES) == 260
    assert published("pu-benchmark-1")["puNCE(puPL)", ("cifar2", 1000)].accuracy == 93.8


def test_a_part_of_a_table_has_our_rows_and_one_for_other_published_methods() -> None:
    parts = write(make_table("pu-benchmark-1", results()), "markdown").split("\n\n")
    first, second = (re.findall(r"^\| (puCL\S*|puNCE\S*) \| ([^|]*) \|", part, re.M) for part in parts[:2])
    assert first == [("puCL(puPL)", "paper"), ("puCL(stacked)", "improved"), ("puCL(stacked)", "improved, cnn7bn"),
                     ("puNCE(puPL)", "published"), ("puCL(ceiling)", "improved")]  # fmt: skip
    assert second == [("puCL(puPL)", "paper"), ("puNCE(puPL)", "published")]


def test_names_of_rows_do_not_break_a_form() -> None:
    pipelines = [line.cell for line in results() if isinstance(line.cell, Pipeline)]
    lines = [line_of(replace(cell, recipe_name="a&b_50%|#{x")) for cell in pipelines]
    table = make_table("pu-benchmark-1", lines)
    assert r"a\&b\_50\%|\#\{x" in write(table, "latex") and r"a&b_50%\|#{x" in write(table, "markdown")
