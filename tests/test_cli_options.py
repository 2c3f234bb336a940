"""Every option of every verb with what it cannot be: one line, signed by the verb, that names the option."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from model_examples import write_images
from pucl.cli.app import app
from pucl.errors import RunError

from conftest import ROOT, Command, Run

SMOKE = str(ROOT / "paper" / "smoke.toml")
# Python's names, which nobody typed: classes, dotted functions, keyword arguments.
PYTHON = re.compile(r"\bpucl\.\w|\b[A-Z]+[a-z]+[A-Z]\w+|\b[a-z_]+=|\b_\w+|\w\(\)")
BASE = {
    "fit": ("fit", "people.csv", "--label", "known", "--id-column", "id", "--encoder", "raw", "--out", "m"),
    "predict": ("predict", "model", "people.csv", "--out", "s.csv"),
    "embed": ("embed", "model", "people.csv", "--out", "z.parquet"),
    "review": ("review", "model", "people.csv", "--out", "r"),
    "inspect": ("inspect",),
    "diagnose": ("diagnose",),
    "theory": ("theory",),
    "report": ("report", "model"),
    "prior": ("prior", "people.csv", "--label", "known"),
    "export": ("export", "model"),
    "pretrain": ("pretrain", "digits", "--labelled", "100", "--epochs", "1", "--device", "cpu", "--out", "t"),
    "list": ("list",),
    "demo": ("demo",),
    "data prepare": ("data", "prepare"),
    "bench run": ("bench", "run", SMOKE, "--dry-run"),
    "bench add": ("bench", "add"),
    "bench maps": ("bench", "maps", SMOKE),
    "bench table": ("bench", "table", "pu-benchmark-1"),
    "bench leaderboard": ("bench", "leaderboard", "--out", "l.md"),
    "bench baselines": ("bench", "baselines", "--out", "b.md"),
    "bench tables": ("bench", "tables", "--out", "t.md"),
}
# (verb, option, values it refuses, what the line says of it)
SHARED = (
    ("--positives", ("nowhere.txt",), "--positives and --label must be given one at a time; got both"),
    ("--negatives", ("nowhere.txt",), "--negatives must be a list, or a file that exists; got 'nowhere.txt'"),
    ("--label", ("nope",), "--label: unknown column of people.csv 'nope': known: "),
    ("--positive-value", ("7",), "--positive-value must be one of [0.0, 1.0]; got '7'"),
    ("--id-column", ("nope",), "--id-column: unknown column of people.csv 'nope': "),
    ("--kind", ("tabel", "image"), "--kind must be "),
    ("--columns", ("age,nope",), "--columns: unknown column of people.csv 'nope': "),
    ("--categorical", ("nope",), "--categorical: unknown column of people.csv 'nope': "),
    ("--size", ("8",), "--size must be left out for data other than a folder of images"),
    ("--rows", ("0", "-1"), "--rows must be a whole number ≥ 1"),
    ("--rows", ("3",), "--rows must be a whole number ≥ 4"),
    ("--seed", ("-1",), "--seed must be a whole number ≥ 0; got -1"),
    ("--config", ("nope.toml",), "--config must be a TOML file that exists; got 'nope.toml'"),
)
WRONG: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    *(("fit", *case) for case in SHARED),
    *(("prior", *case) for case in SHARED),
    ("fit", "--prior", ("0", "1.5", "-1"), "--prior must be a number strictly between 0 and 1"),
    ("fit", "--prior", ("km3",), "--prior: unknown prior estimator 'km3': did you mean 'km"),
    ("fit", "--objective", ("puncee",), "--objective: unknown loss 'puncee': did you mean 'punce'?"),
    ("fit", "--encoder", ("resnet19",), "--encoder: unknown encoder 'resnet19': did you mean 'resnet18'?"),
    ("fit", "--encoder", ("small_cnn",), "encoder 'small_cnn': x must be rows of image data"),
    ("fit", "--view", ("scraf",), "--view: unknown view 'scraf': did you mean 'scarf'?"),
    ("fit", "--labeller", ("pulp",), "--labeller: unknown labeller 'pulp': did you mean 'pupl'?"),
    ("fit", "--head", ("forest",), "--head: unknown head"),
    ("fit", "--temperature", ("-1", "0", "nan"), "--temperature must be a finite number > 0"),
    ("fit", "--epochs", ("0",), "--epochs must be a whole number ≥ 1 (--tune frozen uses an encoder that you have as "),
    ("fit", "--batch-size", ("1",), "--batch-size must be a whole number ≥ 2; got 1"),
    ("fit", "--learning-rate", ("0", "inf"), "--learning-rate must be a finite number > 0"),
    ("fit", "--device", ("tpu",), "--device must be 'cpu', 'cuda', 'cuda:1' …; got 'tpu'"),
    ("fit", "--out", ("people.csv",), "--out people.csv must be a folder; got a file"),
    ("fit", "--answers", ("nowhere",), "--answers must be a file of answers, or the folder of a review, that exists"),
    ("fit", "--start-from", ("nowhere",), "--start-from must be a model folder, with model.json in it; got 'nowhere'"),
    ("review", "--n", ("0", "-1"), "--n must be a whole number ≥ 1"),
    ("review", "--strategy", ("best",), "--strategy: unknown strategy 'best': "),
    ("review", "--add", ("nowhere.csv",), "--out r must be the folder of a review; got nothing there"),
    ("predict", "--id-column", ("nope",), "--id-column: unknown column of people.csv 'nope': "),
    ("predict", "--threshold", ("0", "2"), "--threshold must be a number strictly between 0 and 1"),
    ("predict", "--batch-size", ("0",), "--batch-size must be a whole number ≥ 1; got 0"),
    ("predict", "--out", ("s.txt",), "--out must be a file that ends in .parquet or .csv; got 's.txt'"),
    ("inspect", "", ("nowhere",), "MODEL must be a model folder, with model.json in it; got 'nowhere'"),
    ("report", "--out", ("r.pdf",), "--out must be a file that ends in .html or .htm; got 'r.pdf'"),
    ("prior", "--model", ("nowhere",), "--model must be a model folder"),
    ("prior", "--method", ("bbee",), "--method: unknown prior estimator 'bbee': did you mean 'bbe'?"),
    ("export", "--onnx", ("m.pt",), "--onnx must be a file that ends in .onnx; got 'm.pt'"),
    ("pretrain", "--labelled", ("0", "99999"), "--labelled must be a whole number from 1 to "),
    ("pretrain", "--objective", ("pucll",), "--objective: unknown loss 'pucll': did you mean 'pucl'?"),
    ("pretrain", "--objective", ("punce",), "--prior must be a number strictly between 0 and 1; got None"),
    ("pretrain", "--encoder", ("mpl",), "--encoder: unknown encoder 'mpl': did you mean 'mlp'?"),
    ("pretrain", "--view", ("scraf",), "--view: unknown view 'scraf': did you mean 'scarf'?"),
    ("pretrain", "--temperature", ("0",), "--temperature must be a finite number > 0"),
    ("pretrain", "--prior", ("2",), "--prior must be a number strictly between 0 and 1; got 2.0"),
    ("pretrain", "--epochs", ("0",), "--epochs must be a whole number ≥ 1; got 0"),
    ("pretrain", "--batch-size", ("1", "9999"), "--batch-size must be "),
    ("pretrain", "--optimiser", ("adam",), "--optimiser: unknown optimiser 'adam': did you mean 'adamw'?"),
    ("pretrain", "--learning-rate", ("0",), "--learning-rate must be a finite number > 0"),
    ("pretrain", "--weight-decay", ("-1",), "--weight-decay must be a number in [0, 1); got -1.0"),
    ("pretrain", "--clip", ("0",), "--clip must be a finite number > 0"),
    ("pretrain", "--labelled-share", ("1",), "--labelled-share must be a number strictly between 0 and 1"),
    ("pretrain", "--held-out", ("1",), "--held-out must be a number in [0, 1); got 1.0"),
    ("pretrain", "--precision", ("f16",), "--precision: unknown precision 'f16': did you mean "),
    ("pretrain", "--seed", ("-1",), "--seed must be a whole number ≥ 0; got -1"),
    ("pretrain", "--device", ("tpu",), "--device must be 'cpu', 'cuda', 'cuda:1' …; got 'tpu'"),
    ("pretrain", "--log", (".",), "--log must be a file; got the folder ."),
    ("pretrain", "--checkpoint-every", ("0",), "--checkpoint-every must be a whole number ≥ 1; got 0"),
    ("pretrain", "--keep", ("0",), "--keep must be a whole number ≥ 1; got 0"),
    ("pretrain", "--out", ("people.csv",), "--out must be a folder; got the file people.csv"),
    ("list", "", ("losess",), "FAMILY: unknown family 'losess': did you mean 'losses'?"),
    ("theory", "", ("label_nose",), "NAMES: unknown statement 'label_nose': did you mean 'label_noise'"),
    ("theory", "--format", ("html",), "--format: unknown format 'html': "),
    ("theory", "--seed", ("-1",), "--seed must be a whole number ≥ 0; got -1"),
    ("diagnose", "", ("people.csv",), "MODEL must be a model folder, with model.json in it; got 'people.csv'"),
    ("demo", "--seed", ("-1",), "--seed must be a whole number ≥ 0; got -1"),
    ("demo", "--out", ("people.csv",), "--out must be a folder that can be written to"),
    ("data prepare", "", ("cifar",), "NAME: unknown data set 'cifar': did you mean 'cifar"),
    ("bench run", "--only", ("nothing",), "--only must be text or key=value that matches a cell of the grid"),
    ("bench run", "--jobs", ("0",), "--jobs must be a whole number ≥ 1; got 0"),
    ("bench run", "--device", ("tpu",), "--device must be 'cpu', 'cuda', 'cuda:1' …; got 'tpu'"),
    ("bench add", "", ("nowhere.jsonl",), "FILES must be a file that exists; got 'nowhere.jsonl'"),
    ("bench table", "--format", ("tex",), "--format: unknown format 'tex': "),
    ("bench table", "--results", ("nowhere.jsonl",), "--results must be a file that exists; got 'nowhere.jsonl'"),
    ("bench leaderboard", "--goals", ("nowhere.toml",), "--goals must be a TOML file that exists"),
    ("bench baselines", "--notes", ("nowhere.toml",), "--notes must be a TOML file that exists"),
)  # fmt: skip


def verbs() -> Iterator[tuple[str, Any]]:
    """Every verb by what people type after ``pucl``."""
    group: Any = typer.main.get_command(app)
    for name, verb in group.commands.items():
        inner = getattr(verb, "commands", None)
        yield from ((f"{name} {word}", one) for word, one in inner.items()) if inner else [(name, verb)]


def check(run: Run, verb: str, message: str) -> None:
    assert (run.code, run.out) == (2, "") and run.err.count("\n") == 1, run
    assert run.err.startswith((f"pucl {verb}: ", f"pucl {verb}, ")) and message in run.err
    assert not PYTHON.search(run.err.replace(message, "")), run.err


@pytest.mark.parametrize(("verb", "option", "values", "message"), WRONG, ids=lambda part: str(part)[:30])
def test_wrong_values(pucl: Command, verb: str, option: str, values: tuple[str, ...], message: str) -> None:
    if verb in ("predict", "report", "export"):
        fitted = pucl(*BASE["fit"][:-1], "model", "--head", "linear", "--labeller", "pupl", "--prior", "0.3")
        assert fitted.code == 0, fitted.err
    for value in values:
        check(pucl(*BASE[verb], *filter(None, (option, value))), verb, message)


@pytest.mark.parametrize(("verb", "command_of_verb"), [pytest.param(*pair, id=pair[0]) for pair in verbs()])
def test_numbers_that_are_none(pucl: Command, verb: str, command_of_verb: Any) -> None:
    numbers = [option for option in command_of_verb.params if _takes(command_of_verb, option) in (int, float)]
    for option in numbers:
        (flag,) = option.opts
        kind = "a whole number" if _takes(command_of_verb, option) is int else "a number"
        for words in ((flag, "many"), (f"{flag}=many",)):
            check(pucl(*BASE[verb], *words), verb, f"{flag} must be {kind}; got 'many'")
    required = any(option.required for option in command_of_verb.params)
    if required:
        run = pucl(*verb.split())
        assert run.code == 2 and run.err.startswith(f"pucl {verb}: Missing ") and run.err.count("\n") == 1


def _takes(verb: Any, option: Any) -> Any:
    from typing import get_args, get_type_hints

    hint = get_type_hints(verb.callback).get(option.name)
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return kinds[0] if option.param_type_name == "option" else None


def test_options_that_are_not_there(pucl: Command) -> None:
    for words, message in (
        (
            ("fit", "--temprature", "1"),
            (
                "pucl fit: No such option: --temprature (Possible options: --temperature). Try ",  # as typer says it
                "pucl fit: No such option: --temprature Did you mean --temperature? Try ",
            ),  # as click does
        ),
        (("fit", "people.csv", "--seed"), "pucl fit: Option '--seed' requires an argument. Try 'pucl fit --help'."),
        (
            ("bench", "rnu"),
            (
                "pucl bench: No such command 'rnu'. Did you mean 'run'? Try 'pucl bench --help'.",
                "pucl bench: No such command 'rnu'. Try 'pucl bench --help'.",  # typer before 0.20
            ),
        ),
    ):
        run = pucl(*words)
        assert run.code == 2 and run.err.count("\n") == 1 and run.err.startswith(message), run.err


def test_folders_and_arrays(pucl: Command, tmp_path: Path) -> None:
    write_images(tmp_path / "pictures")
    np.savez("v.npz", a=np.zeros((60, 4), np.float32), b=np.zeros(60))
    for words, message in (
        (("pictures", "--size", "0"), "--size must be a whole number ≥ 1; got 0"),
        (("pictures", "--label", "x"), "--label must be one label per row, or a .npy file of them; got 'x'"),
        (("pictures", "--columns", "x"), "--columns must be left out for a folder of images; got ('x',)"),
        (("people.csv", "--label", "known", "--key", "x"), "--key must be left out for data other than an .npz file"),
        (("v.npz", "--key", "a", "--label", "b", "--skip-unreadable"), "--skip-unreadable must be left out for data "),
        (("pictures", "--categorical", "x"), "--categorical must be left out for data of kind 'image'"),
        (("pictures", "--positives", "people.csv"), "--positives must be files in pictures; got 60 unknown"),
        (("v.npz", "--key", "c", "--label", "b"), "--key: unknown array of v.npz 'c': known: a, b"),
        (("v.npz", "--key", "a", "--label", "b"), "array 'b': the labels must be 0 or 1, with at least one labelled"),
        (
            ("nope.csv", "--label", "known"),
            "DATA must be a folder of images, .txt files or tables, a pattern such as 'data/*.parquet', or a file ",
        ),
        (("people.csv",), "the labelled positives must be given: --positives, --label, or files in the folders "),
    ):
        check(pucl("fit", *words, "--out", "m"), "fit", message)
    check(
        pucl("pretrain", "digitz", "--out", "t"),
        "pretrain",
        "DATA: unknown task, file or folder 'digitz': did you mean",
    )


def test_a_run_that_cannot_go_on_is_signed_too(pucl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: Any, **_options: Any) -> None:
        raise RunError("pucl.save_model: cannot write to m: No space left on device")

    monkeypatch.setattr("pucl.models.folder.save_model", full)
    run = pucl(*BASE["fit"], "--head", "linear", "--labeller", "pupl", "--prior", "0.3")
    assert run == (1, "", "pucl fit: cannot write to m: No space left on device\n")


def test_a_name_out_of_a_file_of_options(pucl: Command) -> None:
    Path("c.toml").write_text("encoder = 'resnet19'\nprior = 2", encoding="utf-8")
    words = ("fit", "people.csv", "--label", "known", "--out", "m", "--config", "c.toml")
    check(pucl(*words), "fit", "unknown encoder 'resnet19': did you mean 'resnet18'?")
    check(pucl(*words, "--encoder", "raw"), "fit", "--prior must be a number strictly between 0 and 1; got 2")


def test_a_former_name_is_one_line_of_warning(pucl: Command) -> None:
    words = (*BASE["fit"], "--head", "linear", "--prior", "0.3", "--labeller", "walks")
    run = pucl(*words)
    assert run.code == 0 and run.err.startswith("pucl: warning: ") and run.err.count("\n") == 1, run.err
    assert "'walks' is now called 'label_spreading'" in run.err
