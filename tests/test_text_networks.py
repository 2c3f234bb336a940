"""Text encoders that people already have, st:NAME and hf:ORG/NAME: fitted, stored, refused in one line."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from frozen_examples import stand_in_hub
from pucl import PUClassifier
from pucl.errors import InputError
from pucl.texts import TextVectors, schemes
from pucl.texts.from_st import TextNetwork
from text_examples import mails
from text_models import stand_in_folder, stand_in_sentence_transformers, tiny_bert, tiny_sentence_model

TEXTS, TRUTH, S = mails()


def check_fit(folder: Path, **options: Any) -> PUClassifier:
    """The fit works, and a stored model needs nothing of what it was made from."""
    new, truth, _ = mails(100, seed=1)
    fitted = PUClassifier(random_state=0, **options).fit(TEXTS, S)
    score = fitted.decision_function(new)
    assert roc_auc_score(truth, score) > 0.85
    fitted.save(folder / "model")
    return fitted


def test_schemes_are_found_by_their_files() -> None:
    assert schemes() == ("hf", "st")


def test_a_sentence_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_sentence_transformers(monkeypatch)
    source = stand_in_folder(tmp_path / "words")
    fitted = check_fit(tmp_path, encoder=f"st:{source}")
    assert "Text: column 'text' as 16 numbers, by st:words." in fitted.reasons_
    stored = (tmp_path / "model" / "texts.safetensors").read_bytes()
    assert b"a pickle" not in stored and b"SystemExit" not in stored
    card = (tmp_path / "model" / "model.json").read_text(encoding="utf-8")
    assert card.count(str(tmp_path)) == 1 and str(tmp_path) in str(fitted.model_.record.command), "only to do it again"
    for file in source.iterdir():
        file.unlink()
    again = PUClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(TEXTS), fitted.decision_function(TEXTS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("scheme", ["st", "hf"])
def test_real_networks(tmp_path: Path, scheme: str) -> None:
    source = tiny_sentence_model(tmp_path) if scheme == "st" else tiny_bert(tmp_path / "bert")
    vectors = TextVectors.fit(f"{scheme}:{source}", TEXTS)
    z = vectors.encode(TEXTS)
    assert z.shape == (len(TEXTS), 32) and vectors.encode([]).shape == (0, 32)
    np.testing.assert_allclose(vectors.encode(TEXTS[7:8]), z[7:8], atol=1e-4)
    np.testing.assert_allclose(vectors.encode(["hot " * 500]), vectors.encode(["hot " * 62]), atol=1e-4)
    again = TextVectors.load(vectors.name, vectors.arrays)
    np.testing.assert_allclose(again.encode(TEXTS), z, atol=1e-5)
    check_fit(tmp_path, text_encoder=f"{scheme}:{source}")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_both_schemes_average_the_same_pieces(tmp_path: Path) -> None:
    source = tiny_sentence_model(tmp_path)
    whole = TextVectors.fit(f"st:{source}", TEXTS).encoder.encode(TEXTS[:9])
    direction = TextVectors.fit(f"hf:{tmp_path / 'bert'}", TEXTS).encoder.encode(TEXTS[:9])
    np.testing.assert_allclose(whole / np.linalg.norm(whole, axis=1, keepdims=True), direction, atol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "package", "install"),
    [("st", "sentence_transformers", "sentence-transformers"), ("hf", "transformers", "transformers")],
)
def test_a_missing_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch, scheme: str, package: str, install: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    expected = rf"text encoder '{scheme}:org/tiny' needs {package}.*: pip install {install}$"
    with pytest.raises(InputError, match=expected):
        PUClassifier(text_encoder=f"{scheme}:org/tiny").fit(TEXTS, S)


def test_weights_are_downloaded_only_if_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []
    stand_in_sentence_transformers(monkeypatch)
    stand_in_hub(monkeypatch, calls, tmp_path, here=False)
    with pytest.raises(InputError, match="weights of text encoder 'st:org/tiny' are not on this machine.*download=Tru"):
        PUClassifier(text_encoder="st:org/tiny").fit(TEXTS, S)
    assert [local_only for *_, local_only in calls] == [True]
    with pytest.raises(InputError, match="no encoder of texts with weights in safetensors"):  # the stand-in has none
        PUClassifier(encoder="st:org/tiny", download=True).fit(TEXTS, S)
    assert calls[-1] == ("org/tiny", False)
    with pytest.raises(InputError, match="'st:sentence-transformers/tiny' are not on this machine"):
        PUClassifier(text_encoder="st:tiny").fit(TEXTS, S)


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"text_encoder": "su:x"}, TEXTS, "unknown scheme of a text encoder 'su': did you mean 'st'? known: hf, st"),
        ({"text_encoder": "st:"}, TEXTS, "text_encoder must be st:NAME with a name; got 'st:'"),
        ({"encoder": "st:x", "text_encoder": "minilm"}, TEXTS, "text_encoder must be left out beside encoder 'st:x'"),
        ({"encoder": "st:x"}, np.eye(240), "text_encoder must be left out for rows without text; got 'st:x'"),
        ({"encoder": "hf:org/tiny"}, TEXTS, "encoder must be left out for tables; for texts use text_encoder="),
    ],
)
def test_bad_input(options: dict[str, Any], rows: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        PUClassifier(**options).fit(rows, S)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def parts(*kinds: str, path: str = "") -> str:
    """A modules.json."""
    return json.dumps([{"idx": i, "name": str(i), "path": path, "type": kind} for i, kind in enumerate(kinds)])


ST = "sentence_transformers"


@pytest.mark.parametrize(
    "named",
    [
        parts("os.system"),
        parts(f"{ST}.models.Transformer", f"{ST}.models.Router"),  # it calls `load` of any class
        parts(f"{ST}.models.Asym"),
        parts(f"{ST}.models.WordEmbeddings"),
        parts(f"{ST}.models.Pooling", path="../elsewhere"),
        parts(f"{ST}.models.Pooling", path="/elsewhere"),
        parts(f"x{ST}.models.Pooling"),
        parts(f"{ST}.models.Pooling\nos.system"),
    ],
)
@pytest.mark.parametrize("name", ["modules.json", "Modules.json"])
def test_code_in_a_folder_is_refused(named: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_sentence_transformers(monkeypatch)
    source = stand_in_folder(tmp_path / "words")
    (source / "modules.json").unlink()
    (source / name).write_text(named)
    refused = r"modules.json must be parts of sentence_transformers \(Transformer, Pooling, .*\) in folders below; got"
    with pytest.raises(InputError, match=refused) as caught:
        TextVectors.fit(f"st:{source}", TEXTS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("activation", ["os.abort", "torch.hub.list", "torch.nn.modules.activation.os.abort", "", None])
def test_an_activation_function_of_elsewhere_is_refused(
    activation: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """sentence-transformers before April 2026 calls whatever function is named, without arguments."""
    stand_in_sentence_transformers(monkeypatch)
    source = stand_in_folder(tmp_path / "words")
    (source / "modules.json").write_text(parts(f"{ST}.models.Dense", path="2_Dense"))
    (source / "2_Dense").mkdir()
    (source / "2_Dense/config.json").write_text(json.dumps({"activation_function": activation}))
    refused = "config.json must be of an activation function of torch; got|this is no encoder of texts"
    with pytest.raises(InputError, match=refused):
        TextVectors.fit(f"st:{source}", TEXTS)


@pytest.mark.parametrize("name", ["config.json", "0_Transformer/sentence_bert_config.json"])
def test_settings_that_fetch_code_are_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_sentence_transformers(monkeypatch)
    source = stand_in_folder(tmp_path / "words")
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).write_text(json.dumps({"model_args": {"attn_implementation": "someone/kernel"}}))
    refused = f"text encoder 'st', {name}: attn_implementation must be one of eager, .*; got 'someone/kernel'"
    with pytest.raises(InputError, match=refused):
        TextVectors.fit(f"st:{source}", TEXTS)


def test_usual_parts_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_sentence_transformers(monkeypatch)
    source = stand_in_folder(tmp_path / "words")
    kinds = ("models.Transformer", "models.Pooling", "models.Dense", "models.Normalize", "base.modules.dense.Dense")
    (source / "modules.json").write_text(parts(*(f"{ST}.{kind}" for kind in kinds), path="1_Part"))
    (source / "1_Part").mkdir()
    for activation in ("torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"):
        (source / "1_Part/config.json").write_text(json.dumps({"activation_function": activation}))
        assert TextVectors.fit(f"st:{source}", TEXTS).encoder.encode(TEXTS[:2]).shape[0] == 2


def test_names_that_differ_in_case_alone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems would keep one of them, and another one than was checked."""
    stand_in_sentence_transformers(monkeypatch)
    files = {name: np.frombuffer(b"[]", np.uint8) for name in ("modules.json", "Modules.json")}
    with pytest.raises(InputError, match="two of its files differ only in the case of their names"):
        TextNetwork.load(files).encode(["x"])


@pytest.mark.parametrize("name", ["../up.json", "/etc/x.json", "a/../../x.json", "code.py", "weights.bin", ".json"])
def test_stored_files_stay_in_their_folder(name: str) -> None:
    with pytest.raises(ValueError, match="no file of a text encoder"):
        TextNetwork.load({name: np.zeros(3, dtype=np.uint8)})


@pytest.mark.parametrize("names", [("a.json", "a.json/b.json"), (f"{'x' * 300}.json",)])
def test_stored_files_that_cannot_lie_in_one_folder_are_one_line(names: tuple[str, ...]) -> None:
    stored = TextNetwork.load({name: np.zeros(2, np.uint8) for name in names})
    with pytest.raises(
        InputError, match="text encoder 'st': this is no encoder of texts .*(directory|File exists|File name too long)"
    ):
        stored.encode(["x"])
