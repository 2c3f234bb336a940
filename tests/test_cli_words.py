"""The command speaks of options, not of Python's arguments; long lists of columns are never shown whole."""

from pathlib import Path

import numpy as np
import pytest

from model_examples import write_images, write_table
from pucl import PUClassifier
from pucl.cli.signing import respell
from pucl.errors import InputError, some
from pucl.models.folder import load_model

from conftest import Command

QUICK = ("--encoder", "raw", "--head", "linear", "--labeller", "pupl", "--prior", "0.3")
READ = ("--label", "known")
WIDE = 300


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("pass size= or resize=True", "pass --size or resize=True"),
        ("encoder='mlp' asks for it", "--encoder mlp asks for it"),
        ("skip_unreadable=True leaves it out", "--skip-unreadable leaves it out"),
        ("categorical= takes it, text_columns= too", "--categorical takes it, --text too"),
        ("(tune='all' trains it)", "(--tune all trains it)"),
        ("network= of load, size=[3]", "network= of load, size=[3]"),  # no option, and no such value on a command line
        ("a --size=", "a --size="),
    ],
)
def test_arguments_become_options(python: str, command: str) -> None:
    names = ("size", "encoder", "skip_unreadable", "categorical", "text", "tune")
    assert respell(python, {name: f"--{name.replace('_', '-')}" for name in names}) == command


def write_wide(path: Path) -> None:
    """Sixty rows of many columns, a hundred of them constant."""
    values = np.random.default_rng(0).normal(size=(60, WIDE))
    values[:, 100:200] = 7
    header = [f"column_{number}" for number in range(WIDE)]
    rows = [[*map(str, row), int(i < 20)] for i, row in enumerate(values)]
    write_table(path, rows, [*header, "known"])
    np.save(path.with_suffix(".npy"), values)


@pytest.fixture
def many(pucl: Command) -> Command:
    write_wide(Path("wide.csv"))
    return pucl


# What to type, and what the one line on stderr says.
LINES = (
    (
        ("fit", "people.csv", *READ, "--encoder", "timm:x", "--out", "m"),
        "missing values --kind vector; got ",
    ),
    (("fit", "pictures", "--out", "m"), "--skip-unreadable leaves it out"),
    (("fit", "people.csv", "--out", "m"), "given: --positives, --label, or files"),
    (("fit", "people.csv", "--positives", "99", "--out", "m"), "--positives must be "),
    (
        ("fit", "people.csv", *READ, "--epochs", "0", "--out", "m"),
        "(--tune frozen uses an encoder that you have ",
    ),
    (("fit", "wide.csv", "--label", "nope", "--out", "m"), f"column_101, column_102 … and {WIDE + 1 - 6} more"),
    (("fit", "wide.csv", *READ, "--categorical", "nope", "--out", "m"), f" … and {WIDE + 1 - 6} more"),
    (("fit", "wide.csv", *READ, "--text", "nope", "--out", "m"), f" … and {WIDE + 1 - 6} more"),
    (("predict", "model", "wide.npy", "--out", "s.csv"), "names of training: column_0, column_1, column_2, "),
    (("predict", "model", "pictures", "--out", "s.csv"), f"with the {WIDE} columns of training (column_0, "),
)


@pytest.fixture
def fitted(many: Command) -> Command:
    folder = write_images(Path("pictures"), n=6)
    (folder / "positive" / "broken.png").write_text("no image", encoding="utf-8")
    run = many("fit", "wide.csv", *READ, *QUICK, "--out", "model")
    assert run.code == 0, run.err
    assert run.err.endswith("'column_104', 'column_105' … and 94 more\n")
    return many


def test_errors_name_options_and_few_columns(fitted: Command) -> None:
    for words, message in LINES:
        run = fitted(*words)
        assert run.code == 2 and run.out == "" and run.err.count("\n") == 1, run
        assert message in run.err and len(run.err) < 400, run.err
        assert "='" not in run.err and "=True" not in run.err
    shown = fitted("inspect", "model").out
    assert f"Input: column_0, column_1, column_2, column_3, column_4, column_5 … and {WIDE - 100 - 6} more.\n" in shown


def test_reasons_and_warnings_name_options_too(pucl: Command) -> None:
    run = pucl("fit", "people.csv", *READ, "--time-limit", "0.001", "--out", "m")
    assert run.code == 0 and "it rarely pays on tables; --encoder mlp asks for it." in run.out
    assert "--encoder mlp" in pucl("inspect", "m").out and "encoder='mlp'" in str(load_model("m").record.reasons)
    rows = [[f"n{i}", i % 7, int(i < 20)] for i in range(240)]
    write_table(Path("names.csv"), rows, ["mail", "age", "known"])
    run = pucl("fit", "names.csv", *READ, *QUICK, "--out", "n")
    assert run.code == 0 and run.err.endswith("such as 'n0'; --categorical takes it as categories, --text as text\n")


def test_a_model_is_replaced_only_if_asked_for(pucl: Command) -> None:
    words = ("fit", "people.csv", *READ, *QUICK, "--out", "m")
    assert pucl(*words).code == 0
    before = Path("m/model.json").read_bytes()
    told = "--out m must be a new folder, unless --overwrite is given to replace the model in it; got a model"
    told = f"pucl fit: {told}\n"
    assert pucl(*words, "--seed", "5") == (2, "", told) and pucl(*words, "--resume").err == told
    assert Path("m/model.json").read_bytes() == before
    assert pucl(*words, "--seed", "5", "--overwrite").code == 0 and load_model("m").record.seed == 5
    refused = pucl(*words, "--overwrite", "--encoder", "small_cnn")
    assert refused.code == 2 and load_model("m").record.seed == 5, "what fails leaves the old model"


def test_a_matrix_after_a_frame_is_told_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.normal(size=60), "height": rng.normal(size=60)})
    model = PUClassifier(encoder="raw", head="linear", labeller="pupl", prior=0.3, random_state=0)
    model.fit(frame, np.arange(60) < 20)
    with pytest.raises(InputError) as refused:
        model.predict(frame.to_numpy())
    assert str(refused.value) == (
        "PUClassifier: X must be a frame or file whose columns have the names of training: age, height; "
        "pd.DataFrame(X, columns=[…]) names those of an array, in that order; got an array of 2 columns without names"
    )
    again = model.predict(pandas.DataFrame(frame.to_numpy(), columns=["age", "height"]))
    assert np.array_equal(again, model.predict(frame[["height", "age"]])), "their order in a frame does not matter"


def test_some_of_many() -> None:
    assert some("abc") == "a, b, c" and some(map(str, range(1240))) == "0, 1, 2, 3, 4, 5 … and 1,234 more"
