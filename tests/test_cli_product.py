"""The command from people's data to a report: every verb, its JSON, its configuration, and what people get wrong."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_examples import HEADER, N, S, changed, needs_export, table_rows, vectors, write_images, write_table
from pucl.models.folder import load_model, read_card

from conftest import Command, Run

QUICK = ("--encoder", "raw", "--head", "linear", "--labeller", "pupl", "--prior", "0.3")
READ = ("--label", "known", "--id-column", "id")


@pytest.fixture
def model(pucl: Command) -> str:
    assert pucl("fit", "people.csv", *READ, *QUICK, "--out", "model").code == 0
    return "model"


def test_from_data_to_a_report(pucl: Command, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    fit = pucl("fit", "people.csv", *READ, *QUICK, "--out", "model")
    assert fit.code == 0 and fit.err == "" and "60 rows (table), 20 of them labelled positives" in fit.out
    predict = pucl("predict", "model", "people.csv", "--id-column", "id", "--out", "deep/scores.csv")
    assert predict == (0, predict.out, "") and " of 60 rows labelled positive (" in predict.out
    assert (tmp_path / "deep" / "scores.csv").read_text(encoding="utf-8").startswith("id,probability,label,reliability")
    shown = pucl("inspect", "model")
    assert shown.code == 0 and "Input: age, city, height." in shown.out and "given" in shown.out
    report = pucl("report", "model")
    assert report == (0, f"Report: {Path('model/report.html')} (open it in a browser)\n", "")
    assert "<html" in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    command = str(load_model("model").record.command)
    assert command.startswith("pucl fit people.csv") and command.endswith(" --seed 0") and "\n" not in command


def test_a_file_of_options_is_part_of_how_to_do_it_again(pucl: Command, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "fit.toml").write_text('label = "known"\nseed = 3\n', encoding="utf-8")
    assert pucl("fit", "people.csv", *QUICK, "--config", "fit.toml", "--out", "model").code == 0
    record = load_model("model").record
    first, second = str(record.command).splitlines()
    assert first.endswith("--config fit.toml --out model") and second == '# fit.toml: label = "known" seed = 3'
    assert record.seed == 3 and set(record.versions) == {"Python", "torch", "numpy", "scikit-learn"}


@pytest.mark.slow
def test_every_verb_speaks_json(pucl: Command) -> None:
    fit = pucl("fit", "people.csv", *READ, *QUICK, "--out", "model", "--json")
    assert json.loads(fit.out)["out"] == "model" and json.loads(fit.out)["rows"]["n"] == N
    predict = json.loads(pucl("predict", "model", "people.csv", "--out", "scores.parquet", "--json").out)
    assert (predict["rows"], predict["out"]) == (N, "scores.parquet") and 0 < predict["positive"] < N
    inspect = json.loads(pucl("inspect", "model", "--json").out)
    assert list(inspect["schema"]["columns"]) == ["age", "city", "height"] and inspect["format"] == 2
    report = json.loads(pucl("report", "model", "--json").out)
    assert report["bytes"] == Path(report["out"]).stat().st_size
    prior = json.loads(pucl("prior", "people.csv", *READ, "--method", "elkan_noto", "--json").out)
    assert 0 <= prior["low"] <= prior["value"] <= prior["high"] <= 1 and prior["method"] == "elkan_noto"
    needs_export()
    export = pucl("export", "model", "--onnx", "model.onnx", "--json")
    assert json.loads(export.out)["out"] == "model.onnx" and export.err == ""


@pytest.mark.slow
def test_fit_and_prior_say_the_same_of_the_same_rows(pucl: Command) -> None:
    fitted = json.loads(pucl("fit", "people.csv", *READ, "--seed", "1", "--out", "model", "--json").out)["prior"]
    assert json.loads(pucl("prior", "people.csv", *READ, "--seed", "1", "--json").out) == fitted
    words = pucl("prior", "people.csv", *READ, "--seed", "1").out
    assert "at most" in words and words.endswith("pass --prior to 'pucl fit' if you know it\n")


def test_a_prior_through_a_model(pucl: Command, model: str) -> None:
    words = ("prior", "people.csv", *READ, "--method", "elkan_noto")
    assert pucl(*words, "--model", model).out.endswith(" by elkan_noto\n")
    assert pucl(*words, "--model", "nowhere").code == 2
    assert pucl(*words, "--rows", "40", "--columns", "age").code == 0


def test_images_and_vectors(pucl: Command, tmp_path: Path) -> None:
    write_images(tmp_path / "pictures")
    assert pucl("fit", "pictures", *QUICK, "--out", "of-pictures").code == 0
    assert pucl("predict", "of-pictures", "pictures", "--out", "p.csv").out.endswith(
        f" of 24 rows labelled positive (probability above 0.5)\nScores: {Path('p.csv')}\n"
    )
    np.save("v.npy", vectors())
    np.save("s.npy", S)
    assert pucl("fit", "v.npy", "--label", "s.npy", *QUICK, "--out", "of-vectors").code == 0
    assert load_model("of-vectors").schema.kind == "vector"
    np.savez("v.npz", z=vectors(), s=S, name=[f"r{i}" for i in range(N)])
    assert one_line(pucl("predict", "of-vectors", "v.npz", "--out", "v.csv"), "key must be the array of v.npz")
    assert pucl("predict", "of-vectors", "v.npz", "--key", "z", "--id-column", "name", "--out", "v.csv").code == 0
    assert Path("v.csv").read_text(encoding="utf-8").splitlines()[-1].startswith("r59,")
    crossed = pucl("predict", "of-vectors", "pictures", "--out", "q.csv")
    assert crossed.code == 2 and "vectors of 4 numbers, as in training; got the folder pictures" in crossed.err


def test_warnings_are_clean_lines_and_kept(pucl: Command) -> None:
    rows = [[*row, 7] for row in table_rows()]
    write_table(Path("same.csv"), rows, [*HEADER, "same"])
    fit = pucl("fit", "same.csv", *READ, *QUICK, "--out", "model")
    assert fit.code == 0 and fit.err == "pucl: warning: constant columns are dropped: 'same'\n"
    assert read_card("model").record.warnings == ("constant columns are dropped: 'same'",)
    assert load_model("model").schema.needed == ("age", "city", "height")
    assert "Warnings:\n  - constant columns are dropped" in pucl("inspect", "model").out
    write_table(Path("new.csv"), changed("city", "Rome", 3, 30))
    predict = ("predict", "model", "new.csv", "--batch-size", "7", "--out", "s.csv")
    said = "column 'city': 'Rome' did not occur in training"
    assert pucl(*predict).err == f"pucl: warning: {said}; all its features are 0 in 2 rows\n"
    assert pucl(*predict, "--strict").err == f"pucl predict: {said}\n"


CONFIG = """
out = "model"
label = "known"
id-column = "id"
columns = ["age", "height", "city"]
categorical = []
encoder = "raw"
head = "linear"
labeller = "pupl"
prior = 0.3
rows = 50
seed = 3
temperature = 1
fine_tune = false
json = true
"""


def test_a_file_of_options_and_the_command_line_wins(pucl: Command) -> None:
    Path("fit.toml").write_text(CONFIG, encoding="utf-8")
    found = json.loads(pucl("fit", "people.csv", "--config", "fit.toml", "--prior", "0.4", "--seed", "4").out)
    assert found["prior"]["value"] == 0.4 and found["seed"] == 4 and found["rows"]["n"] == 50
    assert list(read_card("model").schema.columns) == ["age", "height", "city"]
    found = json.loads(pucl("fit", "people.csv", "--config", "fit.toml", "--columns", "age", "--overwrite").out)
    assert found["seed"] == 3 and load_model("model").schema.needed == ("age",)


def test_a_file_may_hold_every_option_of_fit(pucl: Command) -> None:
    for words in (("fit", "--help"), ("prior", "--help")):
        assert pucl(*words).code == 0
    import typer

    from pucl.cli.app import app

    group: Any = typer.main.get_command(app)
    known = {
        option.name: option for option in group.commands["fit"].params if option.param_type_name == "option"
    }.keys() - {"config", "as_json", "help"}
    Path("all.toml").write_text("".join(f"{name} = {{}}\n" for name in known), encoding="utf-8")
    run = pucl("fit", "people.csv", "--config", "all.toml")  # all are known, and an empty table fits none of them
    assert run.code == 2 and "unknown key" not in run.err and "must be" in run.err
    assert len(known) > 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3", "pucl fit: unknown key of c.toml 'epoch': did you mean 'epochs'? known: "),
        ("epochs = 'three'", "c.toml: epochs must be a whole number; got 'three'"),
        ("epochs = true", "epochs must be a whole number; got True"),
        ("epochs = 2.5", "epochs must be a whole number; got 2.5"),
        ("fine_tune = 'yes'", "fine_tune must be true or false; got 'yes'"),
        ("label = 3", "label must be text; got 3"),
        ("encoder = ['raw']", "encoder must be text; got ['raw']"),
        ("columns = 3", "columns must be text or a list; got 3"),
        ("prior = 1.5", "prior must be a number strictly between 0 and 1; got 1.5"),
        ("temperature = 'hot'", "temperature must be a number; got 'hot'"),
        ("[fit]\nepochs = 3", "unknown key of c.toml 'fit'"),
        ("epochs =", "c.toml cannot be read"),
    ],
)
def test_mistakes_in_a_file_of_options(pucl: Command, text: str, message: str) -> None:
    Path("c.toml").write_text(text, encoding="utf-8")
    assert one_line(pucl("fit", "people.csv", *READ, "--out", "model", "--config", "c.toml"), message)
    assert not Path("model").exists()


def here() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def one_line(run: Run, message: str) -> bool:
    assert run.code == 2 and run.out == "" and run.err.count("\n") == 1 and run.err.startswith("pucl")
    assert message in run.err
    return True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "city"), "column 'city': the labels must be"),
        (("--label", "age"), "column 'age': the labels must be"),
        (("--label", "knwon"), "unknown column of people.csv 'knwon': did you mean 'known'?"),
        ((), "the labelled positives must be given"),
        (("--positives", "strangers.txt", "--id-column", "id"), "positives must be ids of the data; got 1 unknown"),
        (("--positives", "nowhere.txt"), "a file that exists; got 'nowhere.txt'"),
        (("--label", "known", "--positives", "strangers.txt"), "given one at a time"),
        ((*READ, "--negatives", "strangers.txt"), "--negatives must be ids of the data; got 1 unknown, first 'r99'"),
        ((*READ, "--negatives", "reviewed.txt"), "--negatives must be rows that are not labelled positives; got r07,"),
        ((*READ, "--negatives", "zero.txt"), "--negatives must be a list with at least one entry; got an empty one"),
        ((*READ, "--prior", "1.5"), "prior must be a number strictly between 0 and 1; got 1.5"),
        ((*READ, "--prior", "km3"), "unknown prior estimator 'km3': did you mean 'km"),
        ((*READ, "--encoder", "resnet19"), "unknown encoder 'resnet19': did you mean 'resnet18'?"),
        ((*READ, "--objective", "puncee"), "unknown loss 'puncee': did you mean 'punce'?"),
        ((*READ, "--labeller", "pulp"), "unknown labeller 'pulp': did you mean 'pupl'?"),
        ((*READ, "--view", "scraf"), "unknown view 'scraf': did you mean 'scarf'?"),
        ((*READ, "--head", "forest"), "unknown head of a model 'forest'"),
        ((*READ, "--encoder", "small_cnn"), "encoder 'small_cnn'"),
        ((*READ, "--columns", "age,hight"), "unknown column of people.csv 'hight': did you mean 'height'?"),
        ((*READ, "--kind", "tabel"), "kind must be one of image, table, vector; got 'tabel'"),
        ((*READ, "--size", "32"), "size must be left out for data other than a folder of images"),
        ((*READ, "--device", "tpu"), "device must be 'cpu', 'cuda', 'cuda:1' …; got 'tpu'"),
        ((*READ, "--no-fine-tune", "--fine-tune-on", "all"), "--fine-tune-on must be left out with --no-fine-tune"),
        ((*READ, "--fine-tune-on", "movin"), "--fine-tune-on must be fixed or renewed or moving or all; got 'movin'"),
        ((*READ, "--rows", "0"), "rows must be a whole number ≥ 1; got 0"),
        ((*READ, "--seed", "-1"), "seed must be a whole number ≥ 0; got -1"),
        ((*READ, "--seed", "x"), "pucl fit: --seed must be a whole number; got 'x'"),
        ((*READ, "--out", "people.csv"), "people.csv must be a folder; got a file"),
        ((*READ, "--out", "."), "one with people.csv in it"),
        ((*READ, "--out", "/proc/nothing/model"), "in a place that can be written to; /proc/nothing/model: "),
    ],
)
def test_mistakes_of_fit(pucl: Command, words: tuple[str, ...], message: str) -> None:
    for name, text in (("strangers", "r01\nr99\n"), ("reviewed", "r41\nr07\n"), ("zero", "\n")):
        Path(f"{name}.txt").write_text(text, encoding="utf-8")
    assert one_line(pucl("fit", "people.csv", "--out", "model", *words), message)
    assert here() == ["people.csv", "reviewed.txt", "strangers.txt", "zero.txt"]


def test_a_model_needs_a_place(pucl: Command) -> None:
    assert one_line(pucl("fit", "people.csv", *READ), "--out must be given")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed("known", 1), "got only positives"),
        (changed("known", 0), "got no positive"),
        (changed("known", 2, 1), "got the values [0.0, 1.0, 2.0]"),
        ([[*row[:4], int(i == 0)] for i, row in enumerate(table_rows())], "at least two rows of each kind"),
        ([], "must be a table with rows; got an empty one"),
        ([[row[0], 1, "Ulm", 2, row[4]] for row in table_rows()], "columns with at least two different values"),
        (changed("age", "inf", 7), "column 'age' must be finite or missing; got infinity at row 7"),
        (changed("id", "r05", 7), "id column 'id' must be distinct ids; got 'r05' more than once"),
    ],
)
def test_tables_that_cannot_be(pucl: Command, rows: list[list[Any]], message: str) -> None:
    write_table(Path("bad.csv"), rows)
    run = pucl("fit", "bad.csv", *READ, *QUICK, "--out", "model")
    assert one_line(run, message) and not Path("model").exists()


def test_free_text_is_taken_as_text(pucl: Command) -> None:
    rows = [[*row[:2], f"{row[0]} wrote us a long letter", *row[3:]] for row in table_rows()]
    write_table(Path("letters.csv"), rows)
    run = pucl("fit", "letters.csv", *READ, *QUICK, "--out", "model")
    assert run.code == 0 and run.err == "" and "Text: column 'city' as " in run.out
    assert load_model("model").schema.needed == ("age", "city", "height")


def test_arrays_folders_and_files_that_cannot_be(pucl: Command, tmp_path: Path) -> None:
    x = vectors()
    x[7, 1] = np.nan
    np.save("nan.npy", x)
    np.save("s.npy", S)
    Path("empty.csv").write_text("", encoding="utf-8")
    Path("empty").mkdir()
    write_images(tmp_path / "mixed")
    write_images(tmp_path / "mixed", side=6, n=3)
    write_images(tmp_path / "broken")
    (tmp_path / "broken" / "unlabelled" / "99.png").write_text("no image", encoding="utf-8")
    for words, message in (
        (("nan.npy", "--label", "s.npy"), "must be finite; got NaN or infinity at row 7"),
        (("empty.csv", *READ), "empty.csv cannot be read: Empty CSV file"),
        (("empty",), "empty must be a folder of images"),
        (("nowhere.csv", *READ), "got 'nowhere.csv'"),
        (("people.txt", *READ), "got 'people.txt'"),
        (("mixed",), "of one size, or resized with --size; got positive/00.png of 6×6 and positive/01.png of 8×8"),
        (("broken",), "image unlabelled/99.png cannot be read"),
    ):
        assert one_line(pucl("fit", *words, *QUICK, "--out", "model"), message)
    assert pucl("fit", "mixed", "--size", "8", *QUICK, "--out", "model").code == 0
    skipped = pucl("fit", "broken", "--skip-unreadable", *QUICK, "--out", "other")
    assert skipped.code == 0 and skipped.err.startswith("pucl: warning: 1 of 25 images cannot be read and are skipped")


def test_mistakes_of_the_other_verbs(pucl: Command, model: str) -> None:
    write_table(Path("narrow.csv"), [row[:3] for row in table_rows()], HEADER[:3])
    write_table(Path("text.csv"), changed("age", "old"))
    before = here()
    for words, message in (
        (("predict", "nowhere", "people.csv", "--out", "s.csv"), "with model.json in it; got 'nowhere'"),
        (("predict", ".", "people.csv", "--out", "s.csv"), "a model folder, with model.json in it"),
        (("predict", model, "nowhere.csv", "--out", "s.csv"), "got 'nowhere.csv'"),
        (("predict", model, "narrow.csv", "--out", "s.csv"), "unknown column of narrow.csv 'height'"),
        (("predict", model, "text.csv", "--out", "s.csv"), "column 'age' must be numbers, as in training; got text"),
        (("predict", model, "people.csv", "--out", "people.csv"), "another file than the source; got 'people.csv'"),
        (("predict", model, "people.csv", "--out", "s.json"), "a file that ends in .parquet or .csv; got 's.json'"),
        (("predict", model, "people.csv", "--out", "/proc/no/s.csv"), "in a place that can be written to"),
        (("predict", model, "people.csv", "--out", "s.csv", "--threshold", "1"), "threshold must be"),
        (("predict", model, "people.csv", "--out", "s.csv", "--id-column", "ids"), "did you mean 'id'?"),
        (("predict", model, "people.csv"), "Missing option '--out'"),
        (("inspect", "nowhere"), "a model folder"),
        (("report", "nowhere"), "a model folder"),
        (("report", model, "--out", "r.pdf"), "a file that ends in .html"),
        (("report", model, "--out", "/proc/no/r.html"), "in a place that can be written to"),
        (("export", model, "--onnx", "m.pt"), "a file that ends in .onnx"),
        (("prior", "people.csv", *READ, "--method", "bbee"), "unknown prior estimator 'bbee': did you mean 'bbe'?"),
        (("prior", "people.csv", *READ, "--rows", "0"), "rows must be a whole number ≥ 1; got 0"),
    ):
        assert one_line(pucl(*words), message)
    assert here() == before


def test_a_damaged_model_is_one_line(pucl: Command, model: str) -> None:
    path = Path(model) / "head.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert one_line(pucl("predict", model, "people.csv", "--out", "s.csv"), "another or a damaged one")


def test_a_label_of_other_numbers(pucl: Command) -> None:
    write_table(Path("twos.csv"), [[*row[:4], 2 if row[4] else 1] for row in table_rows()])
    assert one_line(pucl("fit", "twos.csv", *READ, *QUICK, "--out", "model"), "got the values [1.0, 2.0]")
    for value in ("2", "2.0"):
        run = pucl("fit", "twos.csv", *READ, "--positive-value", value, *QUICK, "--out", f"model-{value}", "--json")
        assert json.loads(run.out)["rows"]["labelled"] == int(S.sum())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pucl fit --encoder r", {"raw", "resnet18", "resnet34", "resnet50"}),
        ("pucl fit --objective pu", {"pucl", "punce"}),
        ("pucl fit --labeller p", {"pupl", "prototypes"}),
        ("pucl fit --head l", {"linear"}),
        ("pucl fit --view sc", {"scarf"}),
        ("pucl fit --kind t", {"table"}),
        ("pucl fit --prior km", {"km1", "km2"}),
        ("pucl prior --method b", {"bbe"}),
        ("pucl ins", {"inspect"}),
    ],
)
def test_names_complete(pucl: Command, monkeypatch: pytest.MonkeyPatch, words: str, expected: set[str]) -> None:
    monkeypatch.setenv("_PUCL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert set(pucl().out.split()) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_be_told(pucl: Command, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_PUCL_COMPLETE", f"source_{shell}")
    assert f"_PUCL_COMPLETE=complete_{shell}" in pucl().out


@pytest.mark.parametrize("verb", ["fit", "predict", "prior", "inspect", "report", "export"])
def test_every_verb_has_an_example(pucl: Command, verb: str) -> None:
    run = pucl(verb, "--help")
    assert run.code == 0 and f"Example: pucl {verb} " in run.out and "--json" in run.out


@pytest.mark.slow
def test_a_bar_on_a_terminal_and_nothing_in_a_pipe(pucl: Command, model: str) -> None:
    words = [sys.executable, "-m", "pucl", "predict", model, "people.csv", "--out", "s.csv"]
    ours, theirs = pty.openpty()
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "60 rows labelled" in run.stdout and "60 rows" in shown
    assert pucl(*words[3:]).err == ""
