"""Text as users have it: lists, Series, columns of tables, folders of files; fitted, saved, scored, reported."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import pucl
from pucl.data.own import TableTransform, read
from pucl.data.own.rules import ColumnWarning
from pucl.data.own.text_rule import is_free_text
from pucl.data.own.texts import is_texts
from pucl.errors import InputError
from pucl.models.export import export_onnx
from pucl.models.folder import load_model, read_card
from pucl.models.model import Model
from pucl.models.scoring import score_to_file
from text_examples import mails

TEXTS, TRUTH, S = mails()


@pytest.fixture(scope="module")
def fitted() -> pucl.PUClassifier:
    return pucl.PUClassifier(random_state=0).fit(TEXTS, S)


def frame(**columns: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def transform_of(model: Model) -> TableTransform:
    assert model.schema.transform is not None
    return model.schema.transform


def test_what_is_a_list_of_texts() -> None:
    pd = pytest.importorskip("pandas")
    for source in (["a", None], ("a", "b"), np.array(["a", "b"]), np.array(["a", float("nan")], dtype=object)):
        assert is_texts(source)
    assert is_texts(pd.Series(["a", None])) and is_texts(pd.Series(["a", "b"], dtype="string"))
    others: list[Any] = [
        ["a", 1],
        [1, 2],
        [["a"], ["b"]],
        "text",
        {"a": 1},
        [None],
        np.zeros(3),
        pd.DataFrame({"a": ["x"]}),
    ]
    assert not any(map(is_texts, others))


def test_a_list_of_texts_is_enough(fitted: pucl.PUClassifier) -> None:
    new, truth, _ = mails(seed=1)
    assert roc_auc_score(truth, fitted.decision_function(new)) > 0.97
    assert "Text: column 'text' as 239 numbers, by hashed." in fitted.reasons_


def test_every_way_to_give_texts_scores_alike(fitted: pucl.PUClassifier, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    new = mails(20, seed=1)[0]
    expected = fitted.decision_function(new)
    for name, text in zip("abcdefghijklmnopqrst", new, strict=True):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    model = fitted.model_
    for source in (np.array(new), tuple(new), pd.Series(new), frame(text=new, other=0)):
        np.testing.assert_array_equal(fitted.decision_function(source), expected)
    np.testing.assert_array_equal(model.logits(model.schema.rows(tmp_path)).double().numpy(), expected)


def test_saved_models_score_the_same(fitted: pucl.PUClassifier, tmp_path: Path) -> None:
    new = mails(50, seed=1)[0]
    folder = fitted.save(tmp_path / "model")
    assert (folder / "texts.safetensors").is_file()
    again = pucl.PUClassifier.load(folder)
    np.testing.assert_array_equal(again.decision_function(new), fitted.decision_function(new))
    assert read_card(folder).schema.needed == ("text",), "the description needs no tensors"
    data = (folder / "texts.safetensors").read_bytes()
    (folder / "texts.safetensors").write_bytes(data[:-1] + b"x")
    with pytest.raises(InputError, match="damaged"):
        load_model(folder)


def test_a_model_without_text_leaves_no_old_encoder_behind(fitted: pucl.PUClassifier, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "model")
    rows = np.random.default_rng(0).normal(size=(60, 3))
    pucl.PUClassifier(random_state=0, head="linear", labeller="logistic").fit(rows, np.arange(60) < 20).save(folder)
    assert not (folder / "texts.safetensors").exists()


@pytest.mark.slow
def test_mixed_tables_are_one_call() -> None:
    rng = np.random.default_rng(0)
    table = frame(size=rng.normal(size=len(S)), city=rng.choice(["Rome", "Oslo"], len(S)), mail=TEXTS)
    classifier = pucl.PUClassifier(random_state=0).fit(table, S)
    assert any(reason.startswith("Text: column 'mail' as ") for reason in classifier.reasons_)
    assert roc_auc_score(TRUTH, classifier.decision_function(table)) > 0.95
    features = transform_of(classifier.model_).features
    assert features[:3] == ("size", "city=Oslo", "city=Rome") and features[3] == "mail, dimension 1"
    np.testing.assert_array_equal(classifier.model_.schema.as_scaled, [False] * 3 + [True] * (len(features) - 3))


@pytest.mark.parametrize(
    ("texts", "taken"),
    [
        (TEXTS, True),
        (["Rome", "Oslo"] * 50, False),
        (["strongly agree with this statement"] * 60 + ["do not agree with it"] * 40, False),
        ([f"customer {i}" for i in range(300)], False),
        ([f"2024-01-01 12:00 {i}" for i in range(300)], False),
        ([f"電池が熱くなりました{i}" for i in range(30)], True),
    ],
)
def test_which_columns_are_text(texts: list[str], taken: bool) -> None:
    assert is_free_text(texts, 100) == taken


def test_columns_can_be_named() -> None:
    words = [text.split()[0] for text in TEXTS]
    transform = TableTransform.fit(frame(word=words, x=S), text_columns=["word"])
    assert [rule.name for rule in transform.texts] == ["word"]
    declared = TableTransform.fit(frame(mail=TEXTS[:90], x=S[:90]), categorical=["mail"])
    assert declared.texts == () and declared.categorical == ("mail",)
    for options, message in (
        ({"text_columns": ["wrd"]}, r"text_columns must be columns of the table \(word, x\); got 'wrd'"),
        ({"text_columns": "word"}, "text_columns must be a list of columns; got 'word'"),
        ({"text_columns": ["x"], "categorical": ["x"]}, "text_columns must be columns that are not in categorical"),
        ({"text_encoder": "hased"}, "did you mean 'hashed'"),
    ):
        with pytest.raises(InputError, match=message):
            TableTransform.fit(frame(word=words, x=S), **options)
    with pytest.raises(InputError, match="PUClassifier: text_columns must be left out for data of kind 'vector'"):
        pucl.PUClassifier(kind="vector", text_columns=["x"]).fit(np.eye(8), [1, 1, 0, 0, 0, 0, 0, 0])


def test_missing_and_empty_texts_are_alike() -> None:
    gaps = [*TEXTS[:-3], None, "", float("nan")]
    classifier = pucl.PUClassifier(random_state=0).fit(gaps, S)
    rule = transform_of(classifier.model_).texts[0]
    assert rule.indicator and rule.features[-1] == "text missing"
    scores = classifier.decision_function([None, "  ", "", "hello there"])
    assert scores[0] == scores[1] == scores[2] != scores[3]


def test_a_text_missing_for_the_first_time_is_said(fitted: pucl.PUClassifier) -> None:
    with pytest.warns(
        ColumnWarning, match="'text' has missing values in 1 rows but had none in training; they count as"
    ):
        fitted.decision_function(["hot battery", None])


def test_texts_that_cannot_be_told_apart_are_refused() -> None:
    for texts in (["same words"] * 20, [""] * 19 + ["a"], [f"w{i}" for i in range(20)]):
        with pytest.raises(InputError, match="columns with at least two different values") as caught:
            pucl.PUClassifier().fit(texts, np.arange(20) < 5)
        assert "\n" not in str(caught.value)


def test_other_rows_are_refused_by_a_text_model(fitted: pucl.PUClassifier, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="X has 4 features"):
        fitted.predict(np.zeros((3, 4)))
    with pytest.raises(InputError, match="unknown column of the frame 'text'"):
        fitted.predict(frame(body=["a b"], other=[1]))
    with pytest.raises(
        InputError, match=r"model must be one that takes numbers.*; got text in column 'text'"
    ) as caught:
        export_onnx(fitted.model_, tmp_path / "model.onnx")
    assert "\n" not in str(caught.value) and not (tmp_path / "model.onnx").exists()


@pytest.mark.slow
def test_a_report_shows_texts_escaped(tmp_path: Path) -> None:
    nasty = [f"{text} </script><script>alert(1)</script>" for text in TEXTS]
    classifier = pucl.PUClassifier(random_state=0).fit(nasty, S)
    page = classifier.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "alert(1)" in page and "<script>alert(1)" not in page and "</script><script>" not in page
    evidence = classifier.model_.evidence
    assert evidence is not None and evidence.top.values is not None
    assert evidence.top.values["text"][0] == nasty[evidence.top.row[0]]


def test_folders_of_texts(tmp_path: Path) -> None:
    for i, (text, known) in enumerate(zip(TEXTS, S, strict=True)):
        file = tmp_path / "mail" / ("positive" if known else "unlabelled") / f"{i:03}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    data = read(tmp_path / "mail")
    assert data.kind == "table" and data.s.sum() == S.sum() and data.ids[0].startswith("positive/")
    model = pucl.PUClassifier(random_state=0).fit(data).model_
    scored = score_to_file(model, tmp_path / "mail", tmp_path / "scores.csv")
    first = (tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()[1]
    assert scored.rows == len(TEXTS) and first.startswith("positive/")
    (tmp_path / "mail" / "positive" / "latin.txt").write_bytes("Käse".encode("latin-1"))
    assert len(read(tmp_path / "mail")) == len(TEXTS) + 1, "bytes that are not UTF-8 do not stop it"
    with pytest.raises(InputError, match="size must be left out for a folder of texts"):
        read(tmp_path / "mail", size=8)


def test_a_model_of_a_folder_scores_a_column(fitted: pucl.PUClassifier, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    new = mails(20, seed=1)[0]
    frame(text=new, n=range(20)).to_csv(tmp_path / "new.csv", index=False)
    model = fitted.model_
    expected = fitted.decision_function(new)
    np.testing.assert_array_equal(model.logits(model.schema.rows(tmp_path / "new.csv")).double().numpy(), expected)
    frame(body=new).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(InputError, match="unknown column of other.csv 'text'"):
        model.schema.rows(tmp_path / "other.csv")


def test_text_in_a_csv_file_that_looks_like_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    lines = [f"{1000 + i % 7},{i % 3},{int(i < 9)}" for i in range(60)]
    (tmp_path / "codes.csv").write_text("\n".join(["code,x,known", *lines]), encoding="utf-8")
    data = read(tmp_path / "codes.csv", label="known", text_columns=["code"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = pucl.PUClassifier(random_state=0, text_columns=["code"]).fit(data).model_
    assert [rule.name for rule in transform_of(model).texts] == ["code"]
    assert score_to_file(model, tmp_path / "codes.csv", tmp_path / "scores.csv").rows == 60
