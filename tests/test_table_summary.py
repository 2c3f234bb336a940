"""What stored lines of the suite of tables say: ranks, gaps, π̂, promises, all computed by hand; and the page."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pucl.bench.results.line import Origin
from pucl.bench.tables.layout import write
from pucl.bench.tables.line import FitLine, Measures, SkipLine, TableCell, TableLine, WeighedPrior, line_from
from pucl.bench.tables.page import tables_page
from pucl.bench.tables.suite import read_table_lines
from pucl.bench.tables.summary import failures, is_bound, summarise

from conftest import ROOT, Command

ORIGIN = Origin({"pucl": "0.1.0", "numpy": "2.0"}, "a processor, 1 thread", "abc1234")


def line(
    table: str, method: str, auc: float, *, f1: float | None = None, share: float = 0.3, seed: int = 0,
    role: str = "development", **more: Any,
) -> FitLine:  # fmt: skip
    """A finished fit; F1 is the AUC if it is not given."""
    own = auc if f1 is None else f1
    sizes = {"rows": 9, "columns": 2, "labelled": 3, "pi": 0.2}
    seconds = 2.0 if method == "pucl" else 1.0
    found = Measures(seconds, auc, own, 0.5, own / 2, **sizes, **more)  # type: ignore[arg-type]
    return FitLine(TableCell(table, share, seed, method), role, found, ORIGIN)


LINES: list[TableLine] = [
    line("a", "pucl", 0.9), line("a", "bag", 0.8), line("a", "forest", 0.8), line("a", "supervised", 0.95),
    line("a", "pucl", 0.7, seed=1), line("a", "bag", 0.6, seed=1), line("a", "forest", 0.6, seed=1),
    line("a", "supervised", 0.95, seed=1),
    line("b", "pucl", 0.6, f1=0.2), line("b", "bag", 0.7), line("b", "forest", 0.4), line("b", "supervised", 0.9),
    line("b", "pucl", 0.8, share=0.5), line("b", "bag", 0.5, share=0.5), line("b", "forest", 0.4, share=0.5),
    line("b", "supervised", 0.9, share=0.5),
    line("b", "pucl", 0.1, seed=1), line("b", "bag", 0.99, seed=1), line("b", "supervised", 0.9, seed=1),  # not forest
    FitLine(TableCell("b", 0.3, 1, "forest"), "development", "ValueError: no", ORIGIN),
    SkipLine("c", 0.3, "why"),
]  # fmt: skip


def test_ranks_and_gaps_are_over_the_splits_on_which_all_ran() -> None:
    (summary,) = summarise(LINES)
    (comparison,) = summary.comparisons
    assert (summary.role, comparison.splits) == ("development", 4)
    pucl, bag, forest, supervised = comparison.ranking
    assert [row.method for row in comparison.ranking] == ["pucl", "bag", "forest", "supervised"]
    # AUC by table and share: a 0.3, b 0.3, b 0.5
    assert pucl.auc == pytest.approx((0.8 + 0.6 + 0.8) / 3) and bag.auc == pytest.approx((0.7 + 0.7 + 0.5) / 3)
    assert pucl.auc_rank == pytest.approx((1 + 2 + 1) / 3)
    assert bag.auc_rank == pytest.approx((2.5 + 1 + 2) / 3)  # equal to forest on a
    assert forest.auc_rank == pytest.approx((2.5 + 3 + 3) / 3)
    assert pucl.f1 == pytest.approx((0.8 + 0.2 + 0.8) / 3) and pucl.f1_rank == pytest.approx((1 + 3 + 1) / 3)
    assert pucl.f1_at_share == pytest.approx((0.8 + 0.2 + 0.8) / 6)
    assert (pucl.cpu_seconds, bag.cpu_seconds) == (2.0, 1.0)
    # AUC by table: pucl 0.8 and 0.7, bag 0.7 and 0.6, forest 0.7 and 0.4; supervised does not count
    assert pucl.worst_gap == pytest.approx(-0.1) and pucl.worst_table in ("a", "b")
    assert bag.worst_gap == pytest.approx(0.1)
    assert forest.worst_gap == pytest.approx(0.3) and forest.worst_table == "b"
    assert (supervised.auc_rank, supervised.f1_rank, supervised.worst_gap, supervised.worst_table) == (None,) * 4
    assert supervised.auc == pytest.approx((0.95 + 0.9 + 0.9) / 3)
    assert [each.table for each in comparison.sets] == ["a", "b"]
    assert [each.auc["pucl"] for each in comparison.sets] == pytest.approx([0.8, 0.7])
    assert [each.cell.method for each in failures(LINES)] == ["forest"]


def test_roles_stay_apart_and_the_last_line_of_a_cell_counts() -> None:
    lines = [line("a", "bag", 0.5), line("b", "bag", 0.9, role="held back"), line("a", "bag", 0.7)]
    development, held_back = summarise(lines)
    assert (development.role, held_back.role) == ("development", "held back")
    assert development.comparisons[0].ranking[0].auc == pytest.approx(0.7)
    assert held_back.comparisons[0].ranking[0].auc == pytest.approx(0.9)
    assert held_back.comparisons[0].ranking[0].worst_gap is None  # there is no other method


def test_methods_with_few_fits_are_left_out_but_pucl_has_a_comparison_of_its_own() -> None:
    lines = [line(table, "bag", 0.8) for table in "abcd"] + [line("a", "forest", 0.7), line("a", "pucl", 0.9)]
    (summary,) = summarise(lines)
    assert [[row.method for row in each.ranking] for each in summary.comparisons] == [["bag"], ["pucl", "bag"]]
    assert [each.splits for each in summary.comparisons] == [4, 1]
    text = write(lines, "text")
    assert "Methods, development: 4 tables, 4 splits\n" in text
    assert "Methods, development: 1 table, 1 split\n" in text


def test_estimates_bounds_and_what_they_hold() -> None:
    priors = [
        WeighedPrior(0.3, 0.1, 0.1, 0.5, covered=True, bounded=True, is_bound=False),
        WeighedPrior(0.5, 0.3, 0.4, 0.6, covered=False, bounded=True, is_bound=False),
        WeighedPrior(0.4, 0.2, 0.0, 0.4, covered=True, bounded=True, is_bound=True),
        WeighedPrior(0.1, 0.1, 0.0, 0.1, covered=False, bounded=False),  # an old line: a bound, by its interval
    ]
    lines = [line("a", "pucl", 0.9, seed=seed, priors={"pucl": prior}) for seed, prior in enumerate(priors)]
    lines += [line("a", "elkan_noto", 0.9, seed=seed, priors={"elkan_noto": WeighedPrior(0.1, 0.1)}) for seed in (0, 1)]
    (summary,) = summarise(lines)
    theirs, ours = summary.priors
    assert vars(ours) == {
        "method": "pucl", "estimator": "pucl", "estimates": 2, "bounds": 2, "error": pytest.approx(0.7 / 4),
        "bias": pytest.approx(0.5 / 4), "error_of_estimates": pytest.approx(0.2), "held": pytest.approx(2 / 4),
    }  # fmt: skip
    assert (theirs.estimates, theirs.bounds, theirs.held) == (2, 0, None) and theirs.bias == pytest.approx(-0.1)


def test_only_old_lines_of_pucl_have_bounds_that_are_not_said() -> None:
    like_a_bound = WeighedPrior(0.4, 0.2, 0.0, 0.4, covered=True, bounded=True)
    assert is_bound(like_a_bound, "pucl") and not is_bound(like_a_bound, "bbe")
    assert not is_bound(WeighedPrior(0.4, 0.2, 0.0, 0.4, covered=True, bounded=True, is_bound=False), "pucl")
    assert not is_bound(WeighedPrior(0.4, 0.2, 0.0, 0.5, covered=True, bounded=True), "pucl")


def test_promises_against_the_truth() -> None:
    shown = [({"precision": 0.9, "accuracy": 0.8}, {"precision": 0.4, "accuracy": 0.9}),
             ({"precision": 0.5}, {"precision": 0.6, "accuracy": 0.1}), ({}, {})]  # fmt: skip
    lines = [line("a", "pucl", 0.9, seed=at, promised=said, true=true) for at, (said, true) in enumerate(shown)]
    (summary,) = summarise(lines)
    precision, accuracy = (vars(row) for row in summary.promises)
    assert precision == {
        "method": "pucl", "what": "precision", "fits": 2, "mean": pytest.approx(0.2), "largest": pytest.approx(0.5),
    }  # fmt: skip
    assert accuracy == {
        "method": "pucl", "what": "accuracy", "fits": 1, "mean": pytest.approx(-0.1), "largest": pytest.approx(-0.1),
    }  # fmt: skip


def test_a_line_is_read_as_it_was_written() -> None:
    prior = WeighedPrior(0.4, 0.2, 0.0, 0.4, covered=True, bounded=True, is_bound=True)
    written = line("a", "pucl", 0.9, priors={"pucl": prior}, promised={"precision": 0.5}, true={"precision": 0.25})
    content = json.loads(json.dumps(written.to_dict()))
    assert line_from(content) == written
    assert list(content) == ["config", "role", "metrics", "versions", "hardware", "commit"]
    assert content["config"] == {"table": "a", "share": 0.3, "seed": 0, "method": "pucl"}
    assert "tails" not in content["metrics"] and content["metrics"]["priors"]["pucl"]["is_bound"] is True
    assert line_from(LINES[-1].to_dict()) == LINES[-1] and line_from(LINES[-2].to_dict()) == LINES[-2]


def test_the_summary_in_every_format() -> None:
    rows = list(csv.DictReader(io.StringIO(write(LINES, "csv"))))
    assert {row["part"] for row in rows} == {"methods", "AUC"}
    (gap,) = [row for row in rows if (row["row"], row["measure"]) == ("forest", "worst gap")]
    assert gap["role"] == "development" and float(gap["value"]) == pytest.approx(0.3)
    text, markdown = write(LINES, "text"), write(LINES, "markdown")
    assert "\nforest       0.500" in text and "| forest | 0.500 | 2.8 | 0.500 |" in markdown
    assert "| supervised* | 0.917 | – |" in markdown and "## AUC by table, development\n" in markdown
    assert "Fits that ended with an error: 1 (forest)." in text


def test_the_command_prints_the_summary_and_writes_the_page(bench: Command, tmp_path: Path) -> None:
    assert bench("table", "tables").out == "tables\n\nNo results are stored yet.\n"
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(each.to_dict()) + "\n" for each in LINES), encoding="utf-8")
    code, out, _ = bench("table", "tables", "--results", "r.jsonl", "--format", "markdown")
    assert code == 0 and out.startswith(
        "## Methods, development: 2 tables, 4 splits\n\n| method | AUC | AUC rank | F1 |"
    )
    for words, message in (
        (
            ("table", "tables", "--format", "latex"),
            "unknown format 'latex': did you mean 'text'? known: csv, markdown, text",
        ),
        (("table", "tables", "--results", "none.jsonl"), "--results must be a file that exists; got 'none.jsonl'"),
        (("tables", "--results", "none.jsonl"), "--results must be a file that exists; got 'none.jsonl'"),
        (("table", "table"), "unknown table 'table': did you mean 'tables'?"),
    ):
        code, out, err = bench(*words)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    code, out, _ = bench("tables", "--results", "r.jsonl", "--out", "docs/page.md")
    page = (tmp_path / "docs" / "page.md").read_text(encoding="utf-8")
    assert (code, out) == (0, "Tables: docs/page.md\n") and page == tables_page(LINES)
    assert "20 fits of 4 methods on 2 tables, labelled shares 0.3, 0.5, seeds 0, 1;" in page
    assert "commit abc1234" in page and "numpy 2.0" in page


def test_the_page_of_the_repository_is_what_the_results_say() -> None:
    page = tables_page(read_table_lines(ROOT / "results" / "tables.jsonl"))
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == page, "run 'pucl bench tables'"
