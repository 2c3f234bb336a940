"""Encoders people already have: fitted, stored and loaded; what cannot be used is one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from frozen_examples import (
    Pooled,
    images,
    labels,
    own_network,
    stand_in_hub,
    stand_in_timm,
    stand_in_torchvision,
    stand_in_transformers,
    vectors,
    write_onnx,
)
from model_examples import needs_export
from pucl import PUClassifier
from pucl.encoders.frozen.functions import as_affine
from pucl.encoders.frozen.resolve import build, resolve
from pucl.errors import InputError, RunWarning
from pucl.weights import check_settings

from conftest import Command

POSITIVE, S = labels()
QUICK: dict[str, Any] = {"labeller": "cvir", "head": "linear", "prior": 1 / 3, "random_state": 0}


def right(classifier: PUClassifier, rows: Any) -> float:
    return float(((classifier.predict(rows) == 1) == POSITIVE).mean())


def test_a_function_is_used_and_said_not_to_be_stored_before_the_fit(tmp_path: Path) -> None:
    seen = []

    def means(rows: np.ndarray[Any, Any]) -> Any:
        seen.append((rows.dtype, rows.shape[1:]))
        return rows.mean(axis=(2, 3))

    with pytest.warns(RunWarning, match="Encoder means is your own code, which is not stored"):
        fitted = PUClassifier(encoder=means, **QUICK).fit(images(), S)
    assert set(seen) == {(np.dtype(np.uint8), (3, 8, 8))}  # bytes as they came
    assert right(fitted, images()) == 1.0
    assert fitted.choices_["encoder"] == "means"
    fitted.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"network must be the encoder 'means' again"):
        PUClassifier.load(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model", network=means)
    assert np.array_equal(again.decision_function(images()), fitted.decision_function(images()))


def test_the_users_own_network_is_frozen_where_asked(tmp_path: Path) -> None:
    network = own_network()
    before = [value.clone() for value in network.state_dict().values()]
    with pytest.warns(RunWarning, match="Encoder Pooled is your own code"):
        fitted = PUClassifier(encoder=network, tune="frozen", **QUICK).fit(images(), S)
    assert all(map(torch.equal, before, network.state_dict().values()))
    assert network.training and all(weight.requires_grad for weight in network.parameters())  # the user's own is left
    assert fitted.model_.front is not None and right(fitted, images()) > 0.95
    fitted.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model", network=own_network(seed=7))  # other weights: the stored ones count
    assert np.array_equal(again.decision_function(images()), fitted.decision_function(images()))
    with pytest.raises(InputError, match="do not fit the network"):
        PUClassifier.load(tmp_path / "model", network=Pooled(out=5))


@pytest.mark.parametrize("tune", [None, "all"])
def test_the_users_own_network_is_said_not_to_be_stored_before_it_is_trained(tmp_path: Path, tune: str | None) -> None:
    before = torch.stack([value.sum() for value in own_network().state_dict().values()])
    trained = PUClassifier(encoder=own_network(), tune=tune, epochs=1, **QUICK)
    with pytest.warns(RunWarning, match="^Encoder Pooled is your own code, which is not stored with a model"):
        trained.fit(images(), S)
    trained.save(tmp_path / "model")
    with pytest.raises(InputError, match="network must be a module to fill"):
        PUClassifier.load(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model", network=own_network(seed=7))
    assert np.array_equal(again.decision_function(images()), trained.decision_function(images()))
    after = torch.stack([value.sum() for value in trained.model_.encoder.network.state_dict().values()])
    assert not torch.equal(before, after)


@pytest.mark.parametrize("transformer", [PCA(3), make_pipeline(StandardScaler(), PCA(3, whiten=True))])
def test_an_affine_transformer_is_stored_as_numbers(tmp_path: Path, transformer: Any) -> None:
    rows = vectors()
    transformer.fit(rows)
    fitted = PUClassifier(encoder=transformer, **QUICK).fit(rows, S)
    z = resolve(transformer, torch.from_numpy(rows), owner="x")(torch.from_numpy(rows))
    assert np.allclose(z.numpy(), transformer.transform(rows), atol=1e-5)
    assert right(fitted, rows) > 0.9
    fitted.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model")  # nothing has to be given again
    assert np.array_equal(again.decision_function(rows), fitted.decision_function(rows))


def test_another_transformer_must_be_given_again(tmp_path: Path) -> None:
    rows = vectors()
    sampler = RBFSampler(gamma=0.05, n_components=40, random_state=0).fit(rows)
    assert as_affine(sampler, torch.from_numpy(rows)) is None
    with pytest.warns(RunWarning, match="RBFSampler is your own code"):
        fitted = PUClassifier(encoder=sampler, **QUICK).fit(rows, S)
    fitted.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model", network=sampler)
    assert np.array_equal(again.decision_function(rows), fitted.decision_function(rows))


def test_an_onnx_file_goes_with_the_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    file = write_onnx(tmp_path / "means.onnx")
    fitted = PUClassifier(encoder=f"onnx:{file}", **QUICK).fit(images(), S)
    expected = images().mean(axis=(2, 3)) / 255
    assert fitted.model_.front is not None
    assert np.allclose(fitted.model_.front(torch.from_numpy(images())), expected, atol=1e-6)
    fitted.save(tmp_path / "model")
    file.unlink()
    again = PUClassifier.load(tmp_path / "model")
    assert np.array_equal(again.decision_function(images()), fitted.decision_function(images()))
    stored = b"".join(path.read_bytes() for path in (tmp_path / "model").glob("*.json"))
    assert str(tmp_path).encode() not in stored


def test_images_are_resized_for_a_graph_that_asks_for_a_size(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    encoder = resolve(f"onnx:{write_onnx(tmp_path / 'm.onnx', side=16)}", torch.from_numpy(images()), owner="x")
    z = encoder(torch.from_numpy(images()))
    assert z.shape == (len(S), 3)
    assert np.allclose(z, images().mean(axis=(2, 3)) / 255, atol=0.05)


def flat_sum(rows: np.ndarray[Any, Any]) -> Any:
    return rows.sum(axis=1)


def sometimes_longer(rows: np.ndarray[Any, Any]) -> Any:
    return np.ones((len(rows), 2 if len(rows) == 64 else 3))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (lambda rows: rows * np.nan, "encoder must be one that gives finite numbers; got NaN or infinity for 64 of 64"),
        (
            lambda rows: rows[1:],
            r"gives a vector for every row, \(n, k\); got \(63, 6\) for 64",
        ),
        (flat_sum, r"got \(64,\) for 64 rows by flat_sum"),
        (sometimes_longer, "vectors of the same length for all rows; got vectors of 2 and 3 numbers"),
        (lambda rows: rows @ np.ones(99), r"encoder: failed on a batch of rows of shape \(64, 6\).*ValueError"),
        (PCA(2), "encoder must be a fitted transformer .*FrozenEstimator.*; got PCA that was not fitted"),
        (3, "encoder must be a name, a scheme such as 'timm:NAME', a module, a function"),
        ("tim:resnet", "unknown scheme of an encoder 'tim': did you mean 'timm'"),
        ("onnx:", "encoder must be onnx:NAME with a name"),
        ("onnx:no-such.onnx", "encoder must be onnx:FILE with a file that can be read; got no-such.onnx"),
        ("efficientnet_lite0", "encoder 'efficientnet_lite0': x must be rows of image data"),
    ],
)
@pytest.mark.filterwarnings("ignore:Encoder:pucl.errors.RunWarning")
def test_what_cannot_be_used_is_one_line(encoder: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        PUClassifier(encoder=encoder, **QUICK).fit(vectors(), S)
    assert "\n" not in str(caught.value)


def test_tables_and_encoders_without_weights_are_refused() -> None:
    import pandas as pd

    with pytest.raises(InputError, match="encoder must be left out for tables"):
        PUClassifier(encoder=PCA(2).fit(vectors())).fit(pd.DataFrame(vectors()), S)
    with pytest.raises(InputError, match="tune must be 'all', or left out, for an encoder without weights"):
        PUClassifier(encoder="resnet18", tune="frozen").fit(images(), S)
    with pytest.raises(InputError, match="tune must be one of frozen, head, all, auto, or left out; got 'most'"):
        PUClassifier(encoder=own_network(), tune="most").fit(images(), S)
    with pytest.raises(InputError, match="tune must be 'frozen', 'head' or 'auto' for an encoder without weights"):
        PUClassifier(encoder=PCA(2).fit(vectors()), tune="all").fit(vectors(), S)


def test_no_epochs_at_all_mean_frozen() -> None:
    network, x = own_network(), images()
    before = [weight.clone() for weight in network.parameters()]
    with pytest.warns(RunWarning, match="Encoder Pooled is your own code"):
        none = PUClassifier(encoder=network, epochs=0, **QUICK).fit(x, S)
    with pytest.warns(RunWarning, match="Encoder Pooled is your own code"):
        frozen = PUClassifier(encoder=network, tune="frozen", **QUICK).fit(x, S)
    assert np.array_equal(none.decision_function(x), frozen.decision_function(x)) and not none.history_
    assert all(map(torch.equal, before, network.parameters()))
    pointer = r"epochs must be a whole number ≥ 1 \(tune='frozen' uses an encoder that you have as it is, encoder='raw'"
    trained: list[dict[str, Any]] = [{}, {"encoder": "small_cnn"}, {"encoder": network, "tune": "all"}]
    for way in trained:
        with pytest.raises(InputError, match=f"PUClassifier: {pointer}"):
            PUClassifier(epochs=0, **way).fit(x, S)


def test_a_frozen_encoder_leaves_averaged_rankers_as_the_default() -> None:
    rows = vectors()
    fitted = PUClassifier(encoder=PCA(4).fit(rows), random_state=0).fit(rows, S)
    assert (fitted.choices_["labeller"], fitted.choices_["encoder"]) == ("average", "PCA")
    assert fitted.reasons_[0] == "Encoder PCA: as requested, used as it came; 4 numbers a row."
    assert right(fitted, rows) > 0.9
    assert fitted.transform(rows).shape == (len(S), len(fitted.get_feature_names_out()))


@pytest.mark.slow
def test_a_projection_is_trained_on_stored_views(tmp_path: Path) -> None:
    calls: list[int] = []
    kinds: set[Any] = set()

    def means(rows: np.ndarray[Any, Any]) -> Any:
        calls.append(len(rows))
        kinds.add(rows.dtype)
        return rows.reshape(len(rows), 3, -1)[:, :, ::4].reshape(len(rows), -1)

    with pytest.warns(RunWarning, match="your own code"):
        fitted = PUClassifier(encoder=means, tune="head", epochs=5, prior=1 / 3, random_state=0).fit(images(), S)
    assert sum(calls) == 3 * len(S)  # the rows and two views of each, once, for all epochs
    assert kinds == {np.dtype(np.uint8)}  # views of bytes are bytes
    assert fitted.choices_["encoder"] == "means + mlp"
    assert len(fitted.history_) == 5 and right(fitted, images()) > 0.9
    fitted.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model", network=means)
    assert np.array_equal(again.decision_function(images()), fitted.decision_function(images()))


@pytest.mark.slow
def test_auto_compares_the_projection_with_the_frozen_vectors() -> None:
    rows = vectors()
    fitted = PUClassifier(encoder=PCA(4).fit(rows), tune="auto", random_state=0).fit(rows, S)
    names = {each.name for each in fitted.model_.record.candidates}
    assert {"PCA + average + blend", "PCA + mlp + stacked + linear"} <= names


def test_timm_is_read_from_its_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []
    stand_in_timm(monkeypatch)
    stand_in_hub(monkeypatch, calls, tmp_path)
    fitted = PUClassifier(encoder="timm:tiny", **QUICK).fit(images(), S)
    assert calls == [("timm/tiny", True)]
    check_stored(fitted, tmp_path, 7)
    front = fitted.model_.front
    assert front is not None and front.options["size"] == [12, 12] and front.options["mode"] == "bicubic"
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(tmp_path))  # without safetensors
    with pytest.raises(InputError, match="'timm:tiny' has no model.safetensors; pickled weights are not read"):
        PUClassifier(encoder="timm:tiny", **QUICK).fit(images(), S)
    with pytest.raises(InputError, match="timm has no model 'huge' with weights"):
        PUClassifier(encoder="timm:huge", **QUICK).fit(images(), S)


def test_torchvision_is_read_up_to_its_classifier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_torchvision(monkeypatch, tmp_path / "hub")
    fitted = PUClassifier(encoder="torchvision:tiny", **QUICK).fit(images(), S)
    check_stored(fitted, tmp_path, 7)
    with pytest.raises(InputError, match="torchvision has no model 'huge'"):
        PUClassifier(encoder="torchvision:huge", **QUICK).fit(images(), S)
    (file,) = (tmp_path / "hub" / "checkpoints").iterdir()
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(InputError, match="must be the published file .by the SHA-256 in its name.; got another or a"):
        PUClassifier(encoder="torchvision:tiny", **QUICK).fit(images(), S)


def test_transformers_are_pooled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_transformers(monkeypatch)
    stand_in_hub(monkeypatch, [], tmp_path)
    check_stored(PUClassifier(encoder="hf:org/tiny", **QUICK).fit(images(), S), tmp_path, 7)


@pytest.mark.parametrize(
    "settings",
    [
        {"attn_implementation": "someone/kernel"},
        {"vision_config": {"_attn_implementation_internal": {"": "sdpa", "x": ["someone/kernel"]}}},
        {"model_args": {"attn_implementation": "flash_attention_2"}},
    ],
)
def test_settings_that_fetch_code_are_refused(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kernels of the hub, which transformers downloads and runs."""
    stand_in_transformers(monkeypatch)
    stand_in_hub(monkeypatch, [], tmp_path, settings=json.dumps(settings))
    refused = "'hf:org/tiny': .*implementation.* must be one of eager, .*; got '(someone/kernel|flash_attention_2)'"
    with pytest.raises(InputError, match=refused):
        PUClassifier(encoder="hf:org/tiny", **QUICK).fit(images(), S)
    shape, size = (3, 12, 12), [12, 12]
    options: dict[str, Any] = {"size": size, "mean": [0.5] * 3, "std": [0.5] * 3, "mode": "bilinear"}
    with pytest.raises(InputError, match=refused):
        build("hf:org/tiny", shape, config={"model_type": "stand-in", **settings}, **options)
    build("hf:org/tiny", shape, config={"model_type": "stand-in"}, **options)


def test_settings_of_any_depth_are_looked_through() -> None:
    deep: Any = {"attn_implementation": "a/b"}
    for _ in range(50_000):
        deep = {"x": [deep]}
    with pytest.raises(InputError, match="got 'a/b'"):
        check_settings(deep, "encoder")
    check_settings({"attn_implementation": "sdpa", "n": 1, "implementation": None, "vocab": {"implementation": 7}}, "x")


def check_stored(fitted: PUClassifier, folder: Path, width: int) -> None:
    """The model is whole without the files the weights came from."""
    rows = torch.from_numpy(images(channels=3))
    front = fitted.model_.front
    assert front is not None and front(rows).shape == (len(rows), width)
    fitted.save(folder / "model")
    again = PUClassifier.load(folder / "model")
    assert np.array_equal(again.decision_function(images()), fitted.decision_function(images()))


@pytest.mark.parametrize("scheme", ["timm", "torchvision", "hf"])
def test_weights_are_downloaded_only_if_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str) -> None:
    calls: list[Any] = []
    stand_in_hub(monkeypatch, calls, tmp_path, here=False)
    stand_in_timm(monkeypatch)
    stand_in_transformers(monkeypatch)
    stand_in_torchvision(monkeypatch, tmp_path, here=False)
    with pytest.raises(InputError, match=f"weights of encoder '{scheme}:tiny' are not on this machine.*download=True"):
        PUClassifier(encoder=f"{scheme}:tiny", **QUICK).fit(images(), S)
    assert all(local_only for _, local_only in calls) and not list(tmp_path.iterdir())
    PUClassifier(encoder=f"{scheme}:tiny", download=True, **QUICK).fit(images(), S)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    with pytest.raises(InputError, match=r"encoder 'hf:org/tiny' needs transformers.*: pip install transformers"):
        PUClassifier(encoder="hf:org/tiny", **QUICK).fit(images(), S)


def test_the_command_takes_schemes(pucl: Command, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    write_onnx(tmp_path / "means.onnx")
    np.save(tmp_path / "x.npy", images())
    np.save(tmp_path / "s.npy", S)
    fit = ("fit", "x.npy", "--label", "s.npy", "--out", "model", "--labeller", "cvir", "--head", "linear")
    ran = pucl(*fit, "--encoder", "onnx:means.onnx", "--tune", "frozen")
    assert ran.code == 0 and "encoder onnx:means.onnx" in ran.out
    assert pucl("predict", "model", "x.npy", "--out", "scores.csv").code == 0
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == len(S) + 1
    missing = pucl(*fit, "--encoder", "onnx:other.onnx", "--overwrite")
    assert missing.code == 2 and missing.err.count("\n") == 1
    assert "encoder must be onnx:FILE" in missing.err


def test_own_code_is_not_exported(tmp_path: Path) -> None:
    from pucl.models.export import export_onnx

    rows = vectors()
    fitted = PUClassifier(encoder=PCA(3).fit(rows), **QUICK).fit(rows, S)
    with pytest.raises(InputError, match="a model with the encoder PCA cannot be exported"):
        export_onnx(fitted.model_, tmp_path / "m.onnx")


@pytest.mark.slow
def test_a_frozen_network_is_exported_with_the_rest(tmp_path: Path) -> None:
    needs_export()
    runtime = pytest.importorskip("onnxruntime")
    from pucl.models.export import export_onnx

    with pytest.warns(RunWarning):
        fitted = PUClassifier(encoder=own_network(), tune="frozen", **QUICK).fit(images(), S)
    session = runtime.InferenceSession(export_onnx(fitted.model_, tmp_path / "m.onnx").read_bytes())
    (probability,) = session.run(None, {"rows": images().astype(np.float32) / 255})
    assert np.allclose(probability, fitted.predict_proba(images())[:, 1], atol=1e-4)


class Wild(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) / 0.0


def test_a_network_that_gives_infinity_is_refused() -> None:
    with pytest.warns(RunWarning), pytest.raises(InputError, match="finite numbers; got NaN or infinity"):
        PUClassifier(encoder=Wild(), tune="frozen", **QUICK).fit(images(), S)
