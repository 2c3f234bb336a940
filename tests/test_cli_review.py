"""``pucl review`` and ``pucl fit --answers``: a round from the first model to what the answers changed; mistakes."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model_examples import write_images, write_table
from pucl.models.folder import load_model
from pucl.review.answers import LOG, read_answers

from conftest import SRC, Command, environment

FIT = ("fit", "people.csv", "--label", "known", "--id-column", "id", "--device", "cpu")
QUICK = ("--encoder", "raw", "--labeller", "pupl", "--head", "linear", "--prior", "0.3")
OUT = Path("review")


@pytest.fixture
def fitted(pucl: Command) -> Command:
    """A model of people.csv in the folder m."""
    run = pucl(*FIT, *QUICK, "--out", "m")
    assert run.code == 0, run.err
    return pucl


def rows_of(sheet: str) -> list[dict[str, str]]:
    with (OUT / f"{sheet}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def answer(sheet: str, word: str, name: str = "a.csv") -> Path:
    """The whole sheet answered alike, in a file of its own."""
    lines = [f"{row['id']},{word},{sheet}" for row in rows_of(sheet)]
    Path(name).write_text("\n".join(["id,answer,sheet", *lines]), encoding="utf-8")
    return Path(name)


def test_a_round_and_the_next_one(fitted: Command) -> None:
    run = fitted("review", "m", "people.csv", "--out", "review", "--n", "5")
    assert run.code == 0 and run.err == "", run.err
    assert run.out.startswith("sheet-0001: 5 rows to answer (2 most likely positive, 2 most doubtful, 1 most different")
    first = rows_of("sheet-0001")
    with Path("people.csv").open(encoding="utf-8") as file:
        labelled = {row["id"] for row in csv.DictReader(file) if row["known"] == "1"}
    assert not {row["id"] for row in first} & labelled and {row["answer"] for row in first} == {""}
    assert (OUT / "sheet-0001.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    run = fitted("review", "--out", "review", "--add", answer("sheet-0001", "no"))
    assert run.code == 0 and run.out.startswith(
        "Answers added: 5\nIn the log: 0 positive, 5 negative, 0 not answered yet"
    )
    run = fitted(*FIT, *QUICK, "--answers", "review", "--start-from", "m", "--out", "m2")
    assert run.code == 0, run.err
    assert "Answers that count: 5" in run.out and "Labels: " in run.out and "AUC of hidden positives: " in run.out
    reasons = load_model("m2").record.reasons
    assert any(text.startswith("Answers: 0 rows reviewed as positive and 5 as negative") for text in reasons)
    assert fitted("review", "m2", "people.csv", "--out", "review", "--n", "5").code == 0
    assert not {row["id"] for row in first} & {row["id"] for row in rows_of("sheet-0002")}


def test_contradictions_are_told_and_asked_again_and_answers_taken_back(fitted: Command) -> None:
    fitted("review", "m", "people.csv", "--out", "review", "--n", "3", "--strategy", "likely")
    one = rows_of("sheet-0001")[0]["id"]
    fitted("review", "--out", "review", "--add", answer("sheet-0001", "no"))
    Path("b.csv").write_text(f"id,answer\n{one},yes\n", encoding="utf-8")
    run = fitted("review", "--out", "review", "--add", "b.csv")
    assert f"Answers that contradict each other, asked again on the next sheet: {one}\n" in run.out
    run = fitted(*FIT, *QUICK, "--answers", "review", "--json", "--out", "m2")
    assert json.loads(run.out)["changes"]["contradictions"] == [one] and json.loads(run.out)["changes"]["answered"] == 2
    fitted("review", "m", "people.csv", "--out", "review", "--n", "2")
    assert rows_of("sheet-0002")[0]["id"] == one and rows_of("sheet-0002")[0]["why"].startswith("asked again")
    fitted("review", "--out", "review", "--add", answer("sheet-0002", "yes"))
    assert read_answers([OUT], "x").by_id[one] is True  # the answer to the second question settles it
    run = fitted("review", "--out", "review", "--take-back", one, "--json")
    assert json.loads(run.out)["taken_back"] == [one] and one not in read_answers([OUT], "x").by_id


def test_rows_picked_at_random_tell_the_share_if_they_come_first(fitted: Command) -> None:
    words = ("review", "m", "people.csv", "--out", "review", "--n", "10")
    fitted(*words, "--strategy", "random")
    ids = [row["id"] for row in rows_of("sheet-0001-random")]
    lines = [f"{one},{'yes' if k < 3 else 'no'}" for k, one in enumerate(ids)]
    Path("a.csv").write_text("\n".join(["id,answer", *lines]), encoding="utf-8")
    run = fitted("review", "--out", "review", "--add", "a.csv")
    assert "3 of 10 rows picked at random are positive, so about 30 % (13 to 56 %) of the unlabelled rows" in run.out
    fitted(*words, "--strategy", "likely")
    fitted(*words, "--strategy", "random")  # of what is left: another share
    run = fitted("review", "--out", "review", "--add", answer("sheet-0003-random", "no"), "--json")
    assert json.loads(run.out)["random_share"] == 0.3


def test_the_same_sheet_again_in_another_folder_and_all_rows_in_the_end(fitted: Command) -> None:
    for place in ("review", "other"):
        assert fitted("review", "m", "people.csv", "--out", place, "--n", "500").code == 0
    pages = [Path(place, "sheet-0001.csv").read_bytes() for place in ("review", "other")]
    assert pages[0] == pages[1]
    run = fitted("review", "m", "people.csv", "--out", "review")
    assert run.code == 0 and run.out.startswith("Nothing left to ask") and not (OUT / "sheet-0002.csv").exists()


def test_new_rows_that_differ_are_told(fitted: Command) -> None:
    with Path("people.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    at = header.index("age")
    others = [
        [f"new{k}" if name == "id" else cell for name, cell in zip(header, row, strict=True)]
        for k, row in enumerate(rows)
    ]
    for row in others:
        row[at] = str(float(row[at] or 40) + 300)
        row[header.index("known")] = "0"
    Path("more.csv").write_text("\n".join(",".join(row) for row in (header, *rows, *others)), encoding="utf-8")
    run = fitted("review", "m", "more.csv", "--out", "review")
    assert run.out.startswith(f"The {len(others)} new rows differ strongly from the {len(rows)} old ones (AUC 1.00")


def test_dates_and_options_in_a_file(pucl: Command) -> None:
    """The parts of a date are no columns of their own when two models are compared."""
    rng = np.random.default_rng(0)
    rows = [
        [f"r{k}", f"2026-01-{k % 28 + 1:02d}", f"{rng.normal() + 2 * (k < 30):.4f}", int(k < 20)] for k in range(80)
    ]
    write_table(Path("d.csv"), rows, ["id", "when", "x", "known"])
    words = ("fit", "d.csv", "--label", "known", "--id-column", "id")
    assert pucl(*words, "--out", "m").code == 0
    assert pucl("review", "m", "d.csv", "--out", "review", "--n", "4").code == 0
    pucl("review", "--out", "review", "--add", answer("sheet-0001", "no"))
    Path("c.toml").write_text('answers = ["review"]\nstart-from = "m"\n', encoding="utf-8")
    run = pucl(*words, "--config", "c.toml", "--out", "m2")
    assert run.code == 0 and "Answers that count: 4" in run.out, run.err


MISTAKES = (
    (("review", "m", "people.csv"), "--out must be given: the folder of the review; got None"),
    (("review", "m", "--out", "review"), "DATA must be given with MODEL"),
    (("review", "--out", "review"), "MODEL and DATA must be given for a new sheet, or --add or --take-back"),
    (("review", "--out", "review", "--add", "a.csv"), "--out review must be the folder of a review; got nothing there"),
    (("review", "m", "people.csv", "--out", "review", "--n", "0"), "--n must be a whole number ≥ 1; got 0"),
    (("review", "m", "people.csv", "--out", "review", "--seed", "-1"), "--seed must be a whole number ≥ 0; got -1"),
    (("review", "m", "people.csv", "--out", "review", "--strategy", "best"), "--strategy: unknown strategy 'best'"),
    (("review", "m", "people.csv", "--out", "people.csv"), "--out people.csv must be a folder; got a file"),
    (("review", "m", "people.csv", "--out", "m"), "--out m must be new, empty or the folder of a review; got one "),
    (("review", "nowhere", "people.csv", "--out", "review"), "MODEL must be a model folder, with model.json in it"),
    (("review", "m", "nowhere.csv", "--out", "review"), "DATA must be "),
    (("review", "m", "people.csv", "--label", "nope", "--out", "review"), "--label: unknown column"),
    ((*FIT, "--answers", "nowhere", "--out", "m2"), "--answers must be a file of answers, or the folder of a review"),
    ((*FIT, "--answers", "m", "--out", "m2"), f"--answers must be a file of answers, or a folder with {LOG} in it"),
    ((*FIT, "--answers", "other.csv", "--out", "m2"), "--answers must be about rows of the data, by their ids; got "),
    ((*FIT, "--answers", "odd.csv", "--out", "m2"), "odd.csv, line 2: answer must be positive, negative, skip"),
    ((*FIT, "--start-from", "nowhere", "--out", "m2"), "--start-from must be a model folder, with model.json in it"),
    (("fit", "people.csv", "--label", "known", "--drop", "age", "--start-from", "m", "--out", "m2"),
     "--start-from must be a model of the columns of the data; got one with "),
)  # fmt: skip


def test_mistakes_are_one_line_and_write_nothing(fitted: Command) -> None:
    Path("other.csv").write_text("id,answer\nnobody,yes\n", encoding="utf-8")
    Path("odd.csv").write_text("id,answer\n1,perhaps\n", encoding="utf-8")
    before = sorted(Path().rglob("*"))
    for words, message in MISTAKES:
        run = fitted(*words)
        assert run.code == 2 and run.out == "", (words, run)
        assert run.err.startswith(f"pucl {words[0]}: {message}") and run.err.count("\n") == 1, run.err
    assert sorted(Path().rglob("*")) == before


def test_answers_to_rows_that_are_gone_or_labelled_are_told(fitted: Command) -> None:
    with Path("people.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    positive = next(row["id"] for row in rows if row["known"] == "1")
    other = next(row["id"] for row in rows if row["known"] == "0")
    Path("a.csv").write_text(f"id,answer\n{other},no\ngone,yes\n{positive},no\n", encoding="utf-8")
    run = fitted(*FIT, *QUICK, "--answers", "a.csv", "--out", "m2")
    told = "1 of 3 answers are left out: no such row without a label is in the data, first 'gone'"
    assert run.code == 0 and told in run.err
    assert f"answers that contradict a label of the data are left out, the label stands: {positive}" in run.err
    assert "Answers that count: 1\n" in run.out


@pytest.mark.slow
def test_pictures_keep_the_encoder(pucl: Command, tmp_path: Path) -> None:
    write_images(tmp_path / "pictures", n=60)
    names = sorted(path.name for path in (tmp_path / "pictures").rglob("*.png"))
    words = ("fit", "pictures", "--device", "cpu")
    run = pucl(*words, "--encoder", "small_cnn", "--epochs", "2", "--out", "p")
    assert run.code == 0, run.err
    assert pucl("review", "p", "pictures", "--out", "review", "--n", "4").code == 0, names
    assert "data:image/" in (OUT / "sheet-0001.html").read_text(encoding="utf-8")
    pucl("review", "--out", "review", "--add", answer("sheet-0001", "no"))
    run = pucl(*words, "--answers", "review", "--start-from", "p", "--out", "p2")
    assert run.code == 0, run.err
    before, now = load_model("p"), load_model("p2")
    assert now.record.choices.training == before.record.choices.training
    for name, tensor in before.encoder.state_dict().items():
        assert (now.encoder.state_dict()[name] == tensor).all()
    assert before.evidence is not None and now.evidence is not None
    assert before.evidence.shown is not None and now.evidence.shown is not None
    assert (before.evidence.shown == now.evidence.shown).all() and before.evidence.shown.sum() > 0
    run = pucl(*words, "--start-from", "p", "--epochs", "3", "--out", "p3")
    assert run.code == 2 and "--start-from must be left out beside " in run.err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disc here")
def test_a_full_disc_is_one_line(fitted: Command) -> None:
    """A limit on the size of files stands for the disc: the log cannot grow, and stays what it was."""
    fitted("review", "m", "people.csv", "--out", "review", "--n", "5")
    path, before = answer("sheet-0001", "yes"), (OUT / LOG).read_bytes()
    limit = f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); n = {len(before) + 40}; "
    start = "resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)); from pucl.cli.app import main; import sys; "
    words = f"sys.argv = ['pucl', 'review', '--out', 'review', '--add', {str(path)!r}]; main()"
    run = subprocess.run(
        [sys.executable, "-c", limit + start + words], env=environment(SRC), capture_output=True, text=True, check=False
    )
    assert run.returncode == 1 and run.stderr.count("\n") == 1, run.stderr
    assert run.stderr.startswith("pucl review: cannot write to review: File too large")
    assert (OUT / LOG).read_bytes() == before


def test_a_table_of_rows_without_labels_is_reviewed_with_a_warning(fitted: Command) -> None:
    write_table(Path("again.csv"))
    with Path("again.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    keep = [k for k, name in enumerate(header) if name != "known"]
    Path("new.csv").write_text("\n".join(",".join(row[k] for k in keep) for row in (header, *rows)), encoding="utf-8")
    run = fitted("review", "m", "new.csv", "--out", "review", "--n", "4")
    assert run.code == 0 and "no labels are given (--label or --positives)" in run.err, run.err
    assert len(rows_of("sheet-0001")) == 4
    assert np.unique([row["id"] for row in rows_of("sheet-0001")]).size == 4
