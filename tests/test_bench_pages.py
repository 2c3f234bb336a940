"""Pages of the documentation that are made of stored results: leaderboard, baselines, what ours misses."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pucl.bench.grid.cells import Pipeline
from pucl.bench.grid.grid import read_grid
from pucl.bench.pages.baselines_page import baselines_page, read_notes
from pucl.bench.pages.leaderboard import leaderboard
from pucl.bench.pages.reach import Goal, read_goals
from pucl.bench.pages.reproduction import as_markdown as misses_as_markdown
from pucl.bench.pages.reproduction import write_page as write_reproduction
from pucl.bench.pages.tables import make_table
from pucl.bench.results.published import published
from pucl.bench.results.store import read_results
from pucl.bench.run.runner import select
from pucl.errors import InputError
from pucl.registry import entries

from bench_examples import baseline, line_of, results
from conftest import ROOT


@pytest.mark.slow
def test_the_leaderboard_is_what_the_results_say() -> None:
    path = ROOT / "results" / "benchmark.jsonl"
    page = leaderboard(read_results(path, missing_ok=True), read_goals(ROOT / "paper" / "reach.toml"))
    assert (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8") == page, "run 'pucl bench leaderboard'"


def test_a_ranking_without_priors() -> None:
    page = leaderboard(results())
    assert page == leaderboard(list(reversed(results())))
    ranking = page.split("### fmnist1, 1,000 labelled")[1]
    assert ranking.split("\n")[4:7] == [
        "| 1 | puCL(stacked) | improved, cnn7bn | pipeline | 94.00 (1) |",
        "| 2 | puCL(stacked) | improved, lenet5 | pipeline | 92.50 ± 0.71 (2) |",
        "| 3 | puCL(puPL) | paper, lenet5 | pipeline | 53.00 ± 3.61 (3) |",
    ]
    assert "nnPU" not in ranking and "ceiling" not in ranking
    assert "No results are stored yet." in leaderboard([])


def test_who_learns_from_the_truth_competes_with_nobody() -> None:
    (cell,) = [line.cell for line in results() if line.cell.encoder == "cnn7bn"]
    assert isinstance(cell, Pipeline)
    plain = cell.readout
    small = replace(cell, encoder="cnn7")
    cheat = replace(small, readout=replace(plain, labeller="truth"))
    knn = replace(cell, readout=replace(plain, name="mine", head="knn_probe"))
    taught = replace(cell, readout=replace(plain, name="student", labeller="teacher", teacher=cheat))
    fair = replace(cell, readout=replace(plain, name="pupil", labeller="teacher", teacher=small))
    assert knn.is_reference and taught.is_reference and not fair.is_reference
    page = leaderboard([line_of(one, accuracy=99.0) for one in (knn, taught, fair)])
    ranking = page.split("### fmnist1, 1,000 labelled")[1]
    assert "puCL(pupil) | improved, cnn7bn, taught by cnn7 |" in ranking
    assert "mine" not in ranking and "student" not in ranking


def test_outdated_results_are_marked_everywhere() -> None:
    page, now = (
        leaderboard([line_of(line.cell, outdated=outdated, accuracy=line.accuracy) for line in results()])
        for outdated in (True, False)
    )
    assert "| 1 | puCL(stacked) | improved, cnn7bn | pipeline | 94.00 (1)* |" in page and "88.00 (1)*" in page
    assert "* Made by an earlier revision of the code" in page
    assert "(1)* |" not in now and "88.00 (1)*" not in now and "earlier revision" not in now


def test_a_baseline_that_is_not_registered_here() -> None:
    cell = replace(baseline("naive"), method="theirs")
    elsewhere = replace(cell, place=replace(cell.place, task="fmnist1", n_labelled=1000))
    page = leaderboard([line_of(cell, accuracy=77.0), line_of(elsewhere)])
    assert "| 1 | theirs |" in page and "| theirs | raw | none |" in page


def test_goals_beside_their_ceilings(tmp_path: Path) -> None:
    path = tmp_path / "reach.toml"
    block = '[[goal]]\ntasks = ["fmnist1"]\nn_labelled = 1000\nrecipe = "improved"\n'
    path.write_text(
        f'{block}encoder = "lenet5"\nreadout = "auto"\nceiling = "ceiling"\n'
        f'{block}encoder = "cnn7bn"\nreadout = "auto"\n'
        f'goal = 93.5\n{block}encoder = "lenet5"\nreadout = "finetune"\nceiling = "ceiling"\n'
    )
    rows = leaderboard(results(), read_goals(path)).split("with every label | gap |")[1].split("\n")[2:5]
    assert rows == [  # the paper's puNCE has 92.1 there
        "| fmnist1 | 1,000 | lenet5 | improved, stacked | 92.50 ± 0.71 (2) | 92.1 | +0.40 | 95.00 (1) | -2.50 |",
        "| fmnist1 | 1,000 | cnn7bn | improved, stacked | 94.00 (1) | 93.5 | +0.50 | – | – |",
        "| fmnist1 | 1,000 | lenet5 | improved, stacked_finetune | not run | 92.1 | – | 95.00 (1) | – |",
    ]
    path.write_text('[[goal]]\ntasks = "digits"\nn_labelled = 100\nmethod = "naive"\ngoal = 50\n')
    blind = [baseline("naive", seeds=[seed]) for seed in (0, 1)]
    lines = [line_of(cell, accuracy=60.0 + cell.place.seed) for cell in blind]
    lines.append(line_of(replace(blind[0], prior="oracle"), accuracy=99.0))  # is given π: none of these
    page = leaderboard(lines, read_goals(path))
    assert "| digits | 100 | – | naive | 60.50 ± 0.71 (2) | 50 | +10.50 | – | – |" in page
    knn = Goal("mnist1", 1000, "mlp", "improved", "knn")
    assert knn.accuracy == published("weak-supervision-knn")["puNCE", ("mnist1", 1000)].accuracy
    cifar3 = Goal("cifar3", 1000, "cnn13", "improved", "auto")  # in two tables of the paper
    assert cifar3.accuracy == published("pu-benchmark-2")["puNCE(puPL)", ("cifar3", 1000)].accuracy
    assert Goal("digits", 100, "mlp", "improved", "knn").accuracy is None
    path.write_text(f'{block}readout = "auto"\nceilings = "ceiling"\n')
    with pytest.raises(InputError, match="--goals.*ceilings, encoder missing or unknown"):
        read_goals(path)
    with pytest.raises(InputError, match=r"nothing\.toml"):
        read_goals(tmp_path / "nothing.toml")


def test_the_page_about_the_paper_is_what_the_results_say(tmp_path: Path) -> None:
    page, lines = ROOT / "docs" / "reproduction.md", read_results(ROOT / "results" / "benchmark.jsonl")
    text = page.read_text(encoding="utf-8")
    assert f"\n\n{misses_as_markdown(lines)}\n\n" in text, "run 'pucl bench reproduction'"
    copy = tmp_path / "page.md"
    copy.write_text(text, encoding="utf-8")
    write_reproduction(copy, results())
    written = copy.read_text(encoding="utf-8")
    assert "| pu-benchmark-1 | puCL(puPL) | fmnist1, 1,000 | 91.8 | 53.00 ± 3.61 (3) | -38.8 | – | – |" in written
    assert "2 of 2 compared numbers differ" in written  # it is in two tables; the others have another recipe
    assert "## Hypotheses" in written
    near = [line_of(line.cell, accuracy=90.0, knn=91.0) for line in results()]
    assert "0 of 2 compared numbers differ by more than 2 points." in misses_as_markdown(near)
    copy.write_text("no marks", encoding="utf-8")
    with pytest.raises(InputError, match="has no place for the table"):
        write_reproduction(copy, lines)


def test_every_run_that_the_page_about_the_paper_asks_for_is_in_its_grid() -> None:
    cells = read_grid(ROOT / "paper" / "reproduction.toml")
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    commands = re.findall(r"^pucl bench run paper/reproduction\.toml (.*)$", text, re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        assert 0 < len(select(cells, re.findall(r"--only (\S+)", command))) < len(cells)


def test_the_page_of_the_baselines_is_what_the_results_say() -> None:
    lines = read_results(ROOT / "results" / "benchmark.jsonl", missing_ok=True)
    page = baselines_page(lines, read_notes(ROOT / "paper" / "notes.toml"))
    assert (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8") == page, "run 'pucl bench baselines'"
    assert "not explained yet" not in page
    for name in entries("baselines"):
        assert f"\n### {name}\n\n" in page and f"| `{name}` |" in page


def test_the_page_of_the_baselines_marks_what_is_not_near_the_paper() -> None:
    cell = baseline("nnpu", tasks=["cifar1"], n_labelled=1000, prior="oracle", encoder="cnn7")
    far = replace(line_of(cell, accuracy=80.0), seconds=7.4)
    near = replace(far, metrics={"accuracy": 83.0})
    assert "| 84.7 ± 2.4 | 80.00 (1) [1] | 7 |" in baselines_page([far], {"cifar1": {"nnpu": "because"}})
    assert "1. **nnPU, CIFAR-I**: because" in baselines_page([far], {"cifar1": {"nnpu": "because"}})
    assert "1. **nnPU, CIFAR-I**: not explained yet" in baselines_page([far], {})
    assert "| 84.7 ± 2.4 | 83.00 (1) | 7 |" in baselines_page([near], {})
    assert "| 84.7 ± 2.4 | 83.00 (1)* | 7 |" in baselines_page([replace(near, revisions={"baselines/nnpu": 0})], {})
    shorter = replace(cell, settings={**cell.settings, "epochs": 7, "gamma": 0.5})
    other = replace(near, cell=shorter, time="2027-01-01T00:00:00+00:00")
    page = baselines_page([other], {})
    assert "| 84.7 ± 2.4 | 83.00 (1) [1] | 7 |" in page
    assert "1. **nnPU, CIFAR-I**: Run with epochs = 7 instead of 100, gamma = 0.5 instead of 1.0.\n" in page
    assert "Run with" not in baselines_page([near, other], {})  # the preset goes before what was run later
    elsewhere = (
        replace(cell, prior="bbe"), replace(cell, encoder="cnn13"),
        replace(cell, place=replace(cell.place, setting="single-set")),
    )  # fmt: skip
    for changed in elsewhere:  # later, but not as published
        late = replace(far, cell=changed, time="2027-01-01T00:00:00+00:00")
        assert baselines_page([near, late], {}) == baselines_page([near], {})
    far_off = replace(other, metrics={"accuracy": 50.0})
    for lines in ([near, far_off], [far_off, near]):
        rows = {row.label.method: row for row in make_table("pu-benchmark-1", lines).rows}
        assert rows["nnPU"].entries["cifar1", 1000].mean == near.accuracy


def test_the_page_of_the_baselines_shows_tasks_with_results_and_times_of_cards() -> None:
    cell = baseline("nnpu", tasks=["cifar2"], n_labelled=1000, prior="oracle", encoder="cnn7")
    slow = replace(line_of(cell, accuracy=83.0), seconds=900.0)
    page = baselines_page([slow], {})
    assert "| method | CIFAR-II: paper | ours | s |\n" in page and "(CIFAR-II on one core of a processor)" in page
    card = replace(slow, cell=replace(cell, place=replace(cell.place, seed=3)), seconds=7.0)
    card = replace(card, origin=replace(card.origin, hardware="a card"))
    page = baselines_page([slow, card], {})
    assert "| 83.7 ± 0.6 | 83.00 ± 0.00 (2) | 7 |" in page and "processor" not in page


def test_notes_name_tasks_and_methods_that_exist(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    path.write_text('[cifar1]\nnnpuu = "x"\n', encoding="utf-8")
    with pytest.raises(InputError, match="cifar1: unknown baseline 'nnpuu': did you mean 'nnpu'"):
        read_notes(path)
