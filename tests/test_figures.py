"""The figures of the paper: drawn from made-up results, and what is refused."""

import csv
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figure_examples import picture
from pucl.bench.figures.drawing import MARKERS, PALETTE, balanced, draw, save
from pucl.bench.figures.making import FAMILY, Results, catalogue, make, needs_results
from pucl.bench.figures.maps import Maps
from pucl.bench.figures.picture import HEADER, Curve, Panel, Picture, rows
from pucl.bench.figures.sweep import Stored, Sweep, draw_sweep, objective_of
from pucl.bench.grid.grid import read_grid
from pucl.bench.results.line import ResultLine
from pucl.bench.results.notebooks import points
from pucl.bench.results.store import write_results
from pucl.data.pu_split import kappa
from pucl.errors import InputError
from pucl.registry import entries

from bench_examples import GRID as SMALL_GRID
from bench_examples import line_of
from conftest import ROOT, Command

GRID = ROOT / "paper" / "figures.toml"
CELLS = read_grid(GRID)
STORED = {name: entries(FAMILY)[name].function() for name in entries(FAMILY) if needs_results(name)}
SWEEPS = [name for name, described in STORED.items() if isinstance(described, Sweep)]
MAPS = [name for name, described in STORED.items() if isinstance(described, Maps)]
LABELS = {
    "fig:problem_setup", "fig:kappa_var_3D", "fig:kappa_var_isolation", "fig:point_config", "fig:puPL_gmm",
    "fig:nP_contrastive", "figure:puNCE_vs_puCL", "figure:puNCE_pi", "fig:mcl", "fig:puCL_convergence", "fig:pupl_lp",
    "fig:hard-to-classify", "fig:tsne_puCL", "figure:puNCE_tsne",
}  # fmt: skip


def sweep(name: str) -> Sweep:
    made = entries(FAMILY)[name].function()
    assert isinstance(made, Sweep)
    return made


def stored(name: str, *, seeds: tuple[int, ...] = (0, 1, 2)) -> Stored:
    """Results made up for a figure: 80 + 10 γ + seed."""
    empty = Stored.of(sweep(name), GRID, CELLS, [])
    cells = [cell for cell in empty.cells if cell.place.seed in seeds]
    return Stored.of(sweep(name), GRID, CELLS, [made_up(cell) for cell in cells])


def made_up(cell: Any) -> ResultLine:
    return line_of(cell, accuracy=80 + 10 * cell.place.n_labelled / cell.place.n_unlabelled + cell.place.seed)


def curve_of(panel: Panel, series: str, source: str = "measured") -> Curve:
    (curve,) = [curve for curve in panel.curves if (curve.series, curve.source) == (series, source)]
    return curve


def test_every_figure_of_the_paper_stands_under_its_label() -> None:
    assert {entry.reference for entry in entries(FAMILY).values()} == LABELS


def test_seeds_become_means_with_error_bars() -> None:
    made = draw_sweep("nP_contrastive", stored("nP_contrastive"))
    (panel,) = made.panels
    pucl = curve_of(panel, "puCL")
    assert pucl.x == (0.05, 0.1, 0.25, 0.5) and pucl.seeds == (3, 3, 3, 3)
    assert pucl.y == pytest.approx([81.5, 82.0, 83.5, 86.0]) and pucl.error == pytest.approx([1.0] * 4)
    assert curve_of(panel, "ssCL").x == (0.05, 0.5), "more labels are more rows, of which it is shown both ends"
    said = made.conditions.replace("\N{NO-BREAK SPACE}", " ")
    for words in ("cnn7bn", "100 epochs", "n_U = 10,000", "3 seeds", "overlapping", "kNN", "authors"):
        assert words in said
    theirs = {p.gamma: p.accuracy for p in points("objectives-over-gamma-200-epochs") if p.method == "puCL"}
    published = curve_of(panel, "puCL", "published")
    assert dict(zip(published.x, published.y, strict=True)) == theirs and not published.error


def test_axes_of_the_other_figures() -> None:
    def x_of(name: str, series: str) -> tuple[float, ...]:
        return curve_of(draw_sweep(name, stored(name, seeds=(0,))).panels[0], series).x

    assert x_of("mcl", "γ = 0.05") == (0.0, 0.5, 0.9, 1.0), "ssCL and sCL-PU are its ends"
    assert x_of("punce_prior", "γ = 0.25") == (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
    epochs = range(10, 101, 10)  # of 10 and of 14 full batches of 1,024
    assert x_of("convergence", "ssCL") == pytest.approx([epoch * 10 * 1.024 for epoch in epochs])
    assert x_of("convergence", "puCL, γ = 0.5") == pytest.approx([epoch * 14 * 1.024 for epoch in epochs])
    most = [cell for cell in stored("convergence").cells if cell.place.n_labelled == 5000]
    assert {objective_of(cell) for cell in most} == {"puCL"}, "of ssCL there is only the last epoch"
    assert x_of("heads", "ours") == pytest.approx((1 / 19, 3 / 17, 8 / 12))


def test_gains_are_those_of_a_seed_over_its_own_reference() -> None:
    """Made-up accuracies are 80 + 10 γ + seed, so that a difference within a seed is that of γ alone."""
    *tasks, of_pucl, of_scl = draw_sweep("hardness", stored("hardness")).panels
    assert [panel.title for panel in tasks] == ["CIFAR-easy", "CIFAR-medium", "CIFAR-hard"]
    gain = curve_of(of_pucl, "CIFAR-hard")
    assert gain.x == pytest.approx((1 / 19, 3 / 17, 2 / 3)) and gain.seeds == (3, 3, 3)
    assert gain.y == pytest.approx([10 * (x - 3 / 17) for x in gain.x]) and gain.error == pytest.approx([0] * 3)
    assert curve_of(of_scl, "CIFAR-easy").y == pytest.approx((0, 0))


def test_gains_of_the_authors_are_differences_of_their_numbers() -> None:
    *_, of_pucl, of_scl = draw_sweep("hardness", stored("hardness")).panels
    theirs = {(p.task, p.method, p.n_labelled or 0): p.accuracy for p in points("hardness")}
    for task, title in (("cifar_easy", "CIFAR-easy"), ("cifar_hard", "CIFAR-hard")):
        (plain,) = [value for (of, method, _), value in theirs.items() if (of, method) == (task, "ssCL")]
        gains = {n: value - plain for (of, method, n), value in theirs.items() if (of, method) == (task, "puCL")}
        curve = curve_of(of_pucl, title, "published")
        assert curve.y == pytest.approx([gains[n] for n in sorted(gains)])
        assert curve.x == pytest.approx([n / (20000 - n) for n in sorted(gains)])
        (full,) = [value for (of, method, _), value in theirs.items() if (of, method) == (task, "sCL")]
        assert curve_of(of_scl, title, "published").y == pytest.approx([full - plain] * 2)


def test_accuracies_over_kappa_are_shown_apart_for_few_and_many_positives() -> None:
    made = draw_sweep("kappa_accuracy", stored("kappa_accuracy"))
    *tables, few, many = made.panels
    for panel, priors in ((few, (0.1, 0.3, 0.5)), (many, (0.7, 0.9))):
        points_of = curve_of(panel, "sCL-PU")
        expected = {kappa(prior, gamma): 81 + 10 * gamma for prior in priors for gamma in (0.02, 0.1, 0.5)}
        assert dict(zip(points_of.x, points_of.y, strict=True)) == pytest.approx(expected)
        assert not points_of.joined
    assert [panel.title.partition(",")[0] for panel in tables] == ["ssCL", "sCL-PU", "puCL"]
    heats = [panel.heat for panel in tables if panel.heat is not None]
    assert len(heats) == 3 and len({heat.limits for heat in heats}) == 1, "one scale for all"
    assert np.allclose(heats[0].values, [[81 + 10 * gamma] * 5 for gamma in (0.02, 0.1, 0.5)])
    figure = draw(made)
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert numbers == [f"{81 + 10 * gamma:.1f}" for gamma in (0.02, 0.1, 0.5) for _ in range(5)]


def partly() -> Stored:
    """Made-up results of the figures over κ: seed 0 everywhere, the others but for n_P = 5,000 with π = 0.7 or 0.9."""
    full = stored("kappa_accuracy")
    lines = [
        line
        for line in full.lines
        if line.cell.place.n_labelled < 5000 or ((line.cell.place.true_prior or 0) < 0.7 and line.cell.place.seed < 2)
    ]
    return Stored.of(full.sweep, GRID, CELLS, lines)


def test_a_map_says_which_squares_were_not_run_and_which_have_fewer_seeds() -> None:
    made = draw_sweep("kappa_accuracy", partly())
    heat = made.panels[0].heat
    assert heat is not None and np.isnan(heat.values[2]).tolist() == [False] * 3 + [True] * 2
    assert heat.seeds == ((3,) * 5, (3,) * 5, (2, 2, 2, 0, 0))
    assert heat.values[2][0] == pytest.approx(85.5), "the mean of the two seeds that are there"
    top = [text.get_text() for text in draw(made).axes[0].texts][10:]
    assert top == ["85.5\n2 seeds"] * 3 + ["not\nrun"] * 2
    table = [row for row in rows(made) if row[0] == "ssCL, test accuracy (%)"]
    assert [row[5:] for row in table[-3:]] == [(85.5, "", 2), ("", "", 0), ("", "", 0)]


def test_what_is_missing_is_named_and_points_of_fewer_seeds_are_open() -> None:
    made = draw_sweep("kappa_accuracy", partly())
    said = made.conditions.replace("\N{NO-BREAK SPACE}", " ")
    assert "108 of 135 cells are there (missing: n_P = 5,000)" in said and "open: fewer seeds" in said
    few = made.panels[3]
    pucl = curve_of(few, "puCL")
    assert sorted(pucl.seeds) == [2] * 3 + [3] * 6
    axes = draw(made).axes[3]
    opened = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    expected = [kappa(prior, 0.5) for prior in (0.1, 0.3, 0.5)]
    assert [line.get_xdata() for line in opened] == [pytest.approx(expected)] * 3
    full = draw_sweep("kappa_accuracy", stored("kappa_accuracy"))
    assert "open" not in full.conditions and "missing" not in full.conditions
    assert not [line for line in draw(full).axes[3].lines if line.get_markerfacecolor() == "white"]


def test_results_of_several_machines_are_said_to_be() -> None:
    full = stored("mcl")
    assert "run on" not in draw_sweep("mcl", full).conditions
    first = full.lines[0]
    mixed = [replace(first, origin=replace(first.origin, hardware="another CPU")), *full.lines[1:]]
    said = draw_sweep("mcl", Stored.of(full.sweep, GRID, CELLS, mixed)).conditions
    assert f"run on {', '.join(sorted(['another CPU', first.origin.hardware]))}" in said


def test_one_seed_has_no_spread() -> None:
    made = draw_sweep("punce_prior", stored("punce_prior", seeds=(0,)))
    assert all(not curve.error for curve in made.panels[0].curves)
    (axes,) = draw(made).axes
    assert not axes.collections, "no error bars"
    uneven = draw_sweep("kappa_cuts", one_seed_at_high_gamma())
    curve = curve_of(uneven.panels[3], "puCL")
    assert curve.seeds == (3, 3, 1) and np.isnan(curve.error).tolist() == [False, False, True]
    assert [row[6] for row in rows(uneven) if row[:2] == ("π = 0.1", "puCL")] == [1.0, 1.0, ""]


def one_seed_at_high_gamma() -> Stored:
    full = stored("kappa_cuts")
    lines = [line for line in full.lines if line.cell.place.n_labelled < 5000 or line.cell.place.seed == 0]
    return Stored.of(full.sweep, GRID, CELLS, lines)


def test_panels_of_one_quantity_have_one_axis_and_objectives_one_colour() -> None:
    made = draw_sweep("kappa_cuts", stored("kappa_cuts"))
    axes = draw(made).axes[:8]
    assert len({one.get_ylim() for one in axes}) == 1
    assert len({one.get_xlim() for one in axes[:3]}) == 1 and len({one.get_xlim() for one in axes[3:]}) == 1
    colours: dict[str, set[str]] = {}
    for name in ("kappa_cuts", "nP_contrastive", "punce_vs_pucl", "hardness"):
        for one in draw(draw_sweep(name, stored(name))).axes:
            for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
                line: Any = handle[0] if isinstance(handle, tuple) else handle
                colours.setdefault(label.partition(",")[0], set()).add(line.get_color())
    for one in draw(draw_sweep("convergence", stored("convergence"))).axes:
        handles, labels = one.get_legend_handles_labels()
        first: Any = next(handle for handle, label in zip(handles, labels, strict=True) if label.startswith("ssCL"))
        colours["ssCL"].add((first[0] if isinstance(first, tuple) else first).get_color())
    assert [len(colours[name]) for name in ("ssCL", "sCL-PU", "puCL", "puNCE", "sCL")] == [1] * 5


def test_lines_of_a_title_are_as_long_as_each_other() -> None:
    text = "n_U = 10,000; one seed; dashed: the authors' notebooks, ResNet-18; 51 of 153 cells are there"
    lines = balanced(text, 70)
    assert " ".join(lines) == text and len(lines) == 2 and max(map(len, lines)) - min(map(len, lines)) < 12
    assert balanced("one line", 70) == ["one line"] and len(textwrap.wrap(text, 70)[1]) < 30


def test_cuts_run_along_gamma_and_along_pi() -> None:
    made = draw_sweep("kappa_cuts", stored("kappa_cuts", seeds=(0,)))
    along_prior, along_gamma = made.panels[:3], made.panels[3:]
    assert [panel.title for panel in along_gamma] == [f"π = {prior:g}" for prior in (0.1, 0.3, 0.5, 0.7, 0.9)]
    assert [panel.title for panel in along_prior] == ["γ = 0.02", "γ = 0.1", "γ = 0.5"]
    assert curve_of(along_gamma[0], "puCL").x == (0.02, 0.1, 0.5)
    assert curve_of(along_prior[0], "puCL").x == (0.1, 0.3, 0.5, 0.7, 0.9)


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_fits_the_palette_and_says_what_is_missing(name: str) -> None:
    made = draw_sweep(name, stored(name, seeds=(0, 1)))
    assert "cells are there" in made.conditions and "seed 2)" in made.conditions and "2 seeds" in made.conditions
    assert all(len({curve.series for curve in panel.curves}) <= len(PALETTE) == len(MARKERS) for panel in made.panels)
    with pytest.raises(
        InputError, match=rf"figure '{name}': no results are stored; run: pucl bench run .* \(\d+ cells"
    ):
        draw_sweep(name, Stored.of(sweep(name), GRID, CELLS, []))


def test_results_of_other_conditions_are_not_mixed(tmp_path: Path) -> None:
    """A grid with two recipes has two cells for every point."""
    text = GRID.read_text(encoding="utf-8").replace('recipes = "paper"', 'recipes = ["paper", "other"]')
    (tmp_path / "two.toml").write_text(text + '\n[recipe.other]\nepochs = 10\nview = "simclr"\n', encoding="utf-8")
    lines = [made_up(cell) for cell in read_grid(tmp_path / "two.toml") if cell.place.task == "cifar0"]
    with pytest.raises(InputError, match="must be one with a single cell for every point and seed; got both"):
        make("mcl", tmp_path / "two.toml", Results(lines))


def test_a_grid_without_cells_for_a_figure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(SMALL_GRID, encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"--grid must be a grid that has cells with task=cifar0, setting=overlapping, objective=sscl,mcl",
    ):
        make("mcl", path, Results())
    assert "\n".join(catalogue(path, Results())).count(f"no cells in {path}") == len(SWEEPS) + len(MAPS)


def test_files_hold_the_data(tmp_path: Path) -> None:
    curve = Curve("ours", (0.0, 1.0), (80.0, 90.0), (1.0, 2.0), (3, 3), "measured")
    simple = Picture("title", "conditions", (Panel("panel", "x", "accuracy (%)", (curve,)),), columns=1)
    paths = save(simple, "simple", tmp_path / "new")
    assert [path.name for path in paths] == ["simple.svg", "simple.png", "simple.csv"]
    with paths[2].open(encoding="utf-8", newline="") as file:
        header, *content = csv.reader(file)
    assert tuple(header) == HEADER
    assert content[1] == ["panel", "ours", "measured", "1.0", "90.0", "", "2.0", "3"]
    again = save(simple, "simple", tmp_path / "again")
    assert all(path.read_bytes() == other.read_bytes() for path, other in zip(paths, again, strict=True))
    assert b"<svg" in paths[0].read_bytes() and paths[1].read_bytes().startswith(b"\x89PNG")


def test_pictures_say_conditions_units_and_names() -> None:
    made = draw_sweep("punce_vs_pucl", stored("punce_vs_pucl"))
    figure = draw(made)
    title = figure.get_suptitle()
    assert made.title in title and "3 seeds" in title
    (axes,) = figure.axes
    assert axes.get_xlabel() == "γ = n_P / n_U" and axes.get_ylabel() == "test accuracy (%)"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["puCL", "puNCE", "puCL, the authors", "puNCE, the authors"]
    assert len(list(rows(made))) == 16


def test_list_says_what_fills_every_figure() -> None:
    lines = stored("mcl", seeds=(0,)).lines
    text = "\n".join(catalogue(GRID, Results(lines)))
    assert "mcl (fig:mcl): Accuracy of mCL(λ) over λ" in text and "8 of 24 cells stored; pucl bench run" in text
    assert text.count("needs no runs") == 4 and text.count("maps stored; pucl bench maps") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kapa"], "unknown figure 'kapa': did you mean 'kappa'?"),
        (["mcl"], "figure 'mcl': no results are stored; run: pucl bench run"),
        (["kappa", "--out", "taken/figures"], "--out must be in a place that can be written to"),
        (["kappa", "--out", "."], "kappa.svg must be a file; got a folder"),
        (["kappa", "--results", "none.jsonl"], "none.jsonl"),
        (["mcl", "--grid", "none.toml"], "none.toml"),
        ([], "NAME must be given, or --list; got neither"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "kappa.svg").mkdir()
    grid = [] if "--grid" in words else ["--grid", GRID]
    shown = command("bench", "figure", *words, *grid)
    assert shown.code == 2 and shown.err.count("\n") == 1 and message in shown.err and not shown.out
    assert {path.name for path in tmp_path.iterdir()} == {"taken", "kappa.svg"}


@pytest.mark.slow
def test_command(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_results(tmp_path / "some.jsonl", stored("mcl", seeds=(0,)).lines)
    shown = command("bench", "figure", "mcl", "--grid", GRID, "--results", "some.jsonl", "--out", "out")
    assert shown.code == 0 and shown.out.count("Figure: ") == 3
    assert "Without a result: 16; run: pucl bench run" in shown.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"mcl.svg", "mcl.png", "mcl.csv"}
    assert "kappa (fig:kappa_var_3D)" in command("bench", "figure", "--list", "--grid", GRID).out


def test_without_matplotlib_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match="a figure needs matplotlib: pip install matplotlib"):
        draw(picture("kappa"))
