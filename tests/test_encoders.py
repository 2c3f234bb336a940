"""The published networks layer by layer, input scaling in pieces, encoders on disk, and the probes that judge them."""

import hashlib
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.bench.run import probes
from pucl.bench.run.probes import knn_accuracy, linear_probe_accuracy
from pucl.encoders import embedding_dim, inputs, make_encoder
from pucl.encoders.axes import Axes, axes_encoder, plain_encoder
from pucl.encoders.inputs import Encoder, Standardise, as_rows, check_finite, to_float
from pucl.encoders.raw import raw_encoder
from pucl.encoders.saved import load_encoder, save_encoder
from pucl.errors import InputError, RunError


def size(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def kinds(network: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in network.children()]


def maps(network: nn.Module, x: Tensor) -> tuple[int, ...]:
    """The shape before the mean over the image."""
    return tuple(nn.Sequential(*list(network.children())[:-2])(x).shape)


def first_conv(network: nn.Module) -> nn.Conv2d:
    return next(layer for layer in network.modules() if isinstance(layer, nn.Conv2d))


# The networks


def test_lenet5() -> None:
    network = make_encoder("lenet5", (1, 28, 28))
    convs = (1 * 6 * 25 + 6) + (6 * 16 * 25 + 16) + (16 * 120 * 25 + 120)
    assert size(network) == convs + (120 * 84 + 84) + 2 * 84
    convolutions = ["Conv2d", "MaxPool2d", "ReLU"] * 2 + ["Conv2d", "ReLU"]
    assert kinds(network) == [*convolutions, "Flatten", "Linear", "BatchNorm1d"]
    assert network(torch.rand(2, 1, 28, 28)).shape == (2, 84)


def test_lenet5_on_larger_images() -> None:
    network = make_encoder("lenet5", (3, 32, 29))  # 32 → 16 → 12 → 6 → 2 and 29 → 14 → 10 → 5 → 1
    convs = (3 * 6 * 25 + 6) + (6 * 16 * 25 + 16) + (16 * 120 * 25 + 120)
    assert size(network) == convs + (120 * 2 * 1 * 84 + 84) + 2 * 84
    assert network(torch.rand(2, 3, 32, 29)).shape == (2, 84)


def test_cnn7_for_cifar() -> None:
    network = make_encoder("cnn7", (3, 32, 32))  # 32 → 30 → 14, hence 10 · 14² = 1960
    convs = (3 * 96 * 9 + 96) + (96 * 96 * 9 + 96) + (96 * 192 + 192) + (192 * 10 + 10)
    assert size(network) == convs + (1960 * 1000 + 1000) + (1000 * 1000 + 1000)
    convolutions = ["StemConvolution", "ReLU"] + ["Conv2d", "ReLU"] * 3
    assert kinds(network) == [*convolutions, "Flatten", "Linear", "ReLU", "Linear"]
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 1000)


def test_cnn7_for_stl() -> None:
    network = make_encoder("cnn7", (3, 96, 96))  # 96 → 94 → 47 → 45 → 41 → 20 → 16 → 8, hence 32 · 8² = 2048
    convs = (3 * 6 * 9 + 6) + (6 * 6 * 9 + 6) + (6 * 16 * 25 + 16) + (16 * 32 * 25 + 32)
    assert size(network) == convs + (2048 * 120 + 120) + (120 * 84 + 84)
    block = ["Conv2d", "ReLU"]
    pooled = [*block, "MaxPool2d"]
    assert kinds(network) == [*pooled, *block, *pooled, *pooled, "Flatten", "Linear", "ReLU", "Linear"]
    assert network(torch.rand(2, 3, 96, 96)).shape == (2, 84)


@pytest.mark.parametrize(("shape", "dim"), [((3, 63, 80), 1000), ((3, 64, 80), 84)])
def test_form_of_cnn7_follows_the_shorter_side(shape: tuple[int, ...], dim: int) -> None:
    assert embedding_dim(make_encoder("cnn7", shape), shape) == dim


def test_form_of_cnn7_can_be_chosen() -> None:
    assert embedding_dim(make_encoder("cnn7", (1, 40, 40), form="stl"), (1, 40, 40)) == 84
    assert embedding_dim(make_encoder("cnn7", (1, 64, 64), form="cifar"), (1, 64, 64)) == 1000
    with pytest.raises(InputError, match="^encoder 'cnn7': form must be 'cifar', 'stl' or None; got 'svhn'$"):
        make_encoder("cnn7", (3, 32, 32), form="svhn")


# 3 × 3 convolutions 3-96-96-96/2-192-192-192/2-192, which cnn7bn and cnn13 share
SEVEN = 9 * (3 * 96 + 2 * 96 * 96 + 96 * 192 + 3 * 192 * 192)


def test_cnn7bn() -> None:
    network = make_encoder("cnn7bn", (3, 32, 32))
    assert size(network) == SEVEN + 2 * (3 * 96 + 4 * 192)  # no bias; two numbers per channel for the norm
    convolutions = ["StemConvolution", "NormReLU"] + ["Conv2d", "NormReLU"] * 6
    assert kinds(network) == [*convolutions, "AdaptiveAvgPool2d", "Flatten"]
    assert maps(network, torch.rand(2, 3, 32, 32)) == (2, 192, 8, 8)
    assert network(torch.rand(2, 3, 20, 9)).shape == (2, 192)


def test_cnn13() -> None:
    network = make_encoder("cnn13", (3, 32, 32))  # 32 → 16 → 8, hence 10 · 8² = 640
    channels = 3 * 96 + 5 * 192 + 10
    convs = SEVEN + 192 * 192 + 192 * 10 + channels
    assert size(network) == convs + 2 * channels + (640 * 1000 + 1000) + (1000 * 1000 + 1000)
    convolutions = ["StemConvolution", "NormReLU"] + ["Conv2d", "NormReLU"] * 8
    assert kinds(network) == [*convolutions, "Flatten", "Linear", "ReLU", "Linear"]
    strides = [layer.stride[0] for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert strides == [1, 1, 2, 1, 1, 2, 1, 1, 1]
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 1000)


def test_cnn13_weights_are_kaiming_normal_and_biases_zero() -> None:
    network = make_encoder("cnn13", (3, 32, 32))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.1)
            assert layer.weight.abs().max() > 2.5 * layer.weight.std()  # a uniform law ends at 1.73
            assert layer.bias is not None and not layer.bias.any()


def conv(before: int, after: int, side: int) -> int:
    """Weights of a convolution without bias, and of its norm."""
    return before * after * side**2 + 2 * after


def basic_stage(before: int, width: int, blocks: int) -> int:
    shortcut = conv(before, width, 1) if before != width else 0
    return conv(before, width, 3) + shortcut + (2 * blocks - 1) * conv(width, width, 3)


def bottleneck_stage(before: int, width: int, blocks: int) -> int:
    after = 4 * width
    first = conv(before, width, 1) + conv(width, width, 3) + conv(width, after, 1) + conv(before, after, 1)
    other = conv(after, width, 1) + conv(width, width, 3) + conv(width, after, 1)
    return first + (blocks - 1) * other


def test_resnet18_with_the_cifar_stem() -> None:
    network = make_encoder("resnet18", (3, 32, 32))
    stages = sum(basic_stage(before, width, 2) for before, width in ((64, 64), (64, 128), (128, 256), (256, 512)))
    assert size(network) == conv(3, 64, 3) + stages == 11_168_832
    assert kinds(network) == ["Stem", *["Residual"] * 8, "AdaptiveAvgPool2d", "Flatten"]
    assert maps(network, torch.rand(2, 3, 32, 32)) == (2, 512, 4, 4)
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 512)


def test_resnet34_with_the_cifar_stem() -> None:
    network = make_encoder("resnet34", (3, 32, 32))
    stages = ((64, 64, 3), (64, 128, 4), (128, 256, 6), (256, 512, 3))
    assert size(network) == conv(3, 64, 3) + sum(basic_stage(*stage) for stage in stages) == 21_276_992
    assert network(torch.rand(2, 3, 16, 16)).shape == (2, 512)


def test_resnet50_with_the_imagenet_stem() -> None:
    network = make_encoder("resnet50", (3, 96, 96))
    stages = ((64, 64, 3), (256, 128, 4), (512, 256, 6), (1024, 512, 3))
    assert size(network) == conv(3, 64, 7) + sum(bottleneck_stage(*stage) for stage in stages) == 23_508_032
    assert kinds(network) == ["Stem", *["Residual"] * 16, "AdaptiveAvgPool2d", "Flatten"]
    assert kinds(network.get_submodule("0")) == ["StemConvolution", "NormReLU", "MaxPool2d"]
    assert maps(network, torch.rand(2, 3, 96, 96)) == (2, 2048, 3, 3)
    assert network(torch.rand(2, 3, 96, 96)).shape == (2, 2048)


@pytest.mark.parametrize(
    ("shape", "stem", "kernel"),
    [
        ((3, 64, 64), None, 3),
        ((3, 64, 200), None, 3),
        ((3, 65, 65), None, 7),
        ((1, 96, 96), None, 7),
        ((3, 32, 32), "imagenet", 7),
        ((3, 96, 96), "cifar", 3),
    ],
)
def test_stem_follows_the_shorter_side_unless_chosen(shape: tuple[int, ...], stem: str | None, kernel: int) -> None:
    layer = first_conv(make_encoder("resnet18", shape, stem=stem))
    assert layer.kernel_size == (kernel, kernel) and layer.stride == ((1, 1) if kernel == 3 else (2, 2))
    assert layer.in_channels == shape[0]


def test_unknown_stem() -> None:
    with pytest.raises(InputError, match="^encoder 'resnet34': stem must be 'cifar', 'imagenet' or None; got 'vit'$"):
        make_encoder("resnet34", (3, 32, 32), stem="vit")


def test_resnet_weights_are_kaiming_normal_by_fan_out() -> None:
    network = make_encoder("resnet18", (3, 32, 32))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.out_channels * layer.kernel_size[0] ** 2
            assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.1)
        elif isinstance(layer, nn.BatchNorm2d):
            assert (layer.weight == 1).all() and (layer.bias == 0).all()


@pytest.mark.parametrize("name", ["lenet5", "cnn7", "cnn7bn", "cnn13", "resnet18"])
def test_networks_compile_whole_and_take_channels_last(name: str) -> None:
    network = make_encoder(name, (3, 32, 32)).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.rand(2, 3, 32, 32, generator=Generator().manual_seed(0))
    traced: nn.Module = torch.compile(network, backend="eager", fullgraph=True)  # type: ignore[assignment]
    with torch.no_grad():
        expected = make_encoder(name, (3, 32, 32)).eval()(x)
        assert torch.allclose(traced(x.to(memory_format=torch.channels_last)), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "options", "smallest"),
    [("lenet5", {}, 28), ("cnn7", {"form": "cifar"}, 5), ("cnn7", {"form": "stl"}, 38)],
)
def test_smallest_image(name: str, options: dict[str, Any], smallest: int) -> None:
    network = make_encoder(name, (1, smallest, smallest), **options)
    assert network(torch.rand(2, 1, smallest, smallest)).isfinite().all()
    for height, width in ((smallest - 1, smallest), (smallest, smallest - 1)):
        allowed = f"x must be images of at least {smallest} × {smallest} pixels; got images of {height} × {width}"
        with pytest.raises(InputError, match=f"^encoder '{name}': {allowed}$"):
            make_encoder(name, (1, height, width), **options)


# Rows and their scaling


def constants(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread from the whole set at once."""
    rows, axes = to_float(x).to(torch.float64).numpy(), (0, 2, 3) if x.ndim == 4 else (0,)
    mean, spread = rows.mean(axis=axes, keepdims=True)[0], rows.std(axis=axes, keepdims=True)[0]
    return torch.as_tensor(mean).float(), torch.as_tensor(np.where(spread > 1e-12, spread, 1)).float()


def sets() -> dict[str, Tensor]:
    g = Generator().manual_seed(0)
    table = torch.randn(203, 5, generator=g) * torch.tensor([1.0, 1e-3, 50.0, 0.0, 1.0]) + torch.tensor(
        [0, 3, -7, 2, 0]
    )
    table[0, 4] = 1e6  # a first row far from the others
    return {
        "uint8 images": torch.randint(256, (101, 3, 6, 5), dtype=torch.uint8, generator=g),
        "nearly white images": (torch.rand(101, 1, 6, 5, generator=g) > 0.999).to(torch.uint8) + 254,
        "float images": torch.rand(101, 3, 6, 5, generator=g),
        "table": table,
        "sorted": torch.arange(500.0)[:, None] + 1e5,
        "far from zero": torch.arange(500.0)[:, None] % 3 + 1e7,
        "float64": torch.randn(60, 4, generator=g, dtype=torch.float64),
    }


@pytest.mark.parametrize("kind", sets())
@pytest.mark.parametrize("piece", [1, 100, 1 << 22])
def test_standardise_in_pieces_equals_the_whole(kind: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PIECE", piece)
    x = sets()[kind]
    found, (mean, spread) = Standardise.of(x), constants(x)
    assert found.mean.shape == mean.shape and found.mean.dtype == found.scale.dtype == torch.float32
    assert torch.allclose(found.mean, mean, rtol=1e-6, atol=1e-6)
    assert torch.allclose(found.scale, spread, rtol=1e-6, atol=1e-6)


def test_standardise_of_images_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sets()["uint8 images"]
    whole = Standardise.of(x)
    monkeypatch.setattr(inputs, "PIECE", 1)
    pieced = Standardise.of(x)
    assert torch.equal(whole.mean, pieced.mean) and torch.equal(whole.scale, pieced.scale)
    black = Standardise.of(torch.full((7, 1, 3, 3), 83, dtype=torch.uint8))
    assert black.scale.item() == 1 and black.mean.item() == pytest.approx(83 / 255, rel=1e-7)


def test_no_float_copy_of_the_whole_set(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    convert, isfinite = inputs._float64, torch.isfinite

    def note_convert(x: Tensor) -> Tensor:
        seen.append(x.numel())
        return convert(x)

    def note_isfinite(x: Tensor) -> Tensor:
        seen.append(x.numel())
        return isfinite(x)

    monkeypatch.setattr(inputs, "PIECE", 70)
    monkeypatch.setattr(inputs, "_float64", note_convert)
    monkeypatch.setattr(torch, "isfinite", note_isfinite)
    x = torch.rand(50, 1, 4, 5)
    Standardise.of(x)
    check_finite("test", "x", x)
    assert max(seen) == 60 and sum(seen) == 20 + 1000 + 1000  # three rows of 20; the first row once more


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_memory_map_is_neither_copied_nor_warned_about(
    dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "PIECE", 100)
    saved: np.ndarray[Any, Any] = np.random.default_rng(0).integers(256, size=(40, 3, 4, 5)).astype(dtype)
    np.save(tmp_path / "x.npy", saved)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # torch would warn once per process, perhaps in another test
    try:
        rows = as_rows(mapped, owner="test")
        part = as_rows(mapped[3:], owner="test")
    finally:
        torch.set_warn_always(always)
    assert rows.data_ptr() == mapped.__array_interface__["data"][0]
    assert part.data_ptr() == rows[3:].data_ptr()
    assert np.array_equal(rows.numpy(), saved)
    assert torch.equal(Standardise.of(rows).scale, Standardise.of(torch.as_tensor(saved)).scale)


@pytest.mark.parametrize("piece", [1, 8, 1 << 22])
def test_rows_that_are_not_finite_are_counted_over_all_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PIECE", piece)
    x = np.ones((9, 4), dtype=np.float32)
    x[5, 1], x[8, 0], x[8, 3] = np.nan, np.inf, -np.inf
    with pytest.raises(InputError, match="^test: x must be finite; got NaN or infinity in 2 rows, first 5$"):
        as_rows(x, owner="test")
    assert len(as_rows(x[:5], owner="test")) == 5


# Encoders on disk

SHAPE = (1, 28, 28)


def trained(name: str = "lenet5", shape: tuple[int, ...] = SHAPE, **options: Any) -> Encoder:
    """An encoder whose norms have seen data, too."""
    x = torch.rand(20, *shape, generator=Generator().manual_seed(0))
    encoder = Encoder(Standardise.of(x), make_encoder(name, shape, seed=3, **options))
    encoder(x)
    return encoder


def save(folder: Path, encoder: Encoder | None = None, **changes: Any) -> Path:
    about: dict[str, Any] = {"name": "lenet5", "input_shape": SHAPE, "options": {}, "extra": {}}
    return save_encoder(folder, encoder or trained(), **{**about, **changes})


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "encoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def same_bits(one: nn.Module, other: nn.Module) -> bool:
    first, second = one.state_dict(), other.state_dict()
    same = all(torch.equal(v, second[k]) and v.dtype == second[k].dtype for k, v in first.items())
    return same and first.keys() == second.keys()


def test_saved_encoder_comes_back_bit_for_bit(tmp_path: Path) -> None:
    encoder, x = trained(), torch.rand(5, *SHAPE)
    state = torch.get_rng_state()
    folder = save(tmp_path / "new" / "folder", encoder, extra={"τ": 0.5, "epochs": 3})
    again = load_encoder(folder)
    assert torch.equal(state, torch.get_rng_state())
    assert same_bits(encoder, again) and not again.training
    assert torch.equal(encoder.eval()(x), again(x))
    assert all(p.requires_grad for p in again.parameters())
    assert sorted(path.name for path in folder.iterdir()) == ["encoder.json", "encoder.safetensors"]
    about = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    assert about["sha256"] == hashlib.sha256((folder / "encoder.safetensors").read_bytes()).hexdigest()
    assert (about["format"], about["name"], about["input_shape"]) == (1, "lenet5", [1, 28, 28])
    assert about["extra"] == {"τ": 0.5, "epochs": 3}


def test_saved_options_precision_and_layout(tmp_path: Path) -> None:
    encoder = trained("mlp", (6,), width=8, depth=2).to(torch.bfloat16)
    encoder.network[1].weight.data = encoder.network[1].weight.data.T.contiguous().T  # type: ignore[index]
    save(tmp_path, encoder, name="mlp", input_shape=(6,), options={"width": 8, "depth": 2})
    assert same_bits(encoder, load_encoder(tmp_path))


def test_saving_again_replaces(tmp_path: Path) -> None:
    save(tmp_path)
    other = trained("mlp", (6,))
    save(tmp_path, other, name="mlp", input_shape=(6,))
    assert same_bits(other, load_encoder(tmp_path)) and len(list(tmp_path.iterdir())) == 2


def test_network_of_ones_own(tmp_path: Path) -> None:
    x = torch.rand(9, 6)
    shared = nn.Linear(6, 6)
    encoder = Encoder(Standardise.of(x), nn.Sequential(shared, shared))
    save(tmp_path, encoder, name=None, input_shape=(6,))
    with pytest.raises(InputError, match="^load_encoder: network must be a module to fill, as the saved one is not"):
        load_encoder(tmp_path)
    layer = nn.Linear(6, 6)
    again = load_encoder(tmp_path, network=nn.Sequential(layer, layer))
    assert torch.equal(again(x), encoder(x)) and torch.equal(layer.weight, shared.weight)
    with pytest.raises(InputError, match="^load_encoder: the weights in .* do not fit the network: .*") as caught:
        load_encoder(tmp_path, network=nn.Linear(6, 6))
    assert "\n" not in str(caught.value)


def test_truncated_weights_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path) / "encoder.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="must be the file encoder.json was written for .*; got another or a damaged"):
        load_encoder(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="encoder.safetensors cannot be read: No such file"):
        load_encoder(tmp_path)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    data = pickle.dumps(Trap())
    (save(tmp_path) / "encoder.safetensors").write_bytes(data)
    edit(tmp_path, sha256=hashlib.sha256(data).hexdigest())
    with pytest.raises(InputError, match="encoder.safetensors cannot be read"):
        load_encoder(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_newer_format_is_refused(tmp_path: Path) -> None:
    edit(save(tmp_path), format=2, version="9.0")
    with pytest.raises(InputError, match="must be of format 1 or lower; got format 2, written by pucl 9.0; a newer"):
        load_encoder(tmp_path)


def test_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown encoders 'lenet6': did you mean 'lenet5'"):
        save(tmp_path / "none", name="lenet6")
    assert not (tmp_path / "none").exists()
    edit(save(tmp_path), name="lenet6")
    with pytest.raises(InputError, match="unknown encoders 'lenet6': did you mean 'lenet5'"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "1"}', '{"format": 1, "name": 3}'])
def test_other_json_is_refused(text: str, tmp_path: Path) -> None:
    (save(tmp_path) / "encoder.json").write_text(text)
    with pytest.raises(InputError, match="^load_encoder: .*encoder.json"):
        load_encoder(tmp_path)


def test_an_empty_folder_and_options_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder must be a folder with encoder.json and encoder.safetensors; got"):
        load_encoder(tmp_path)
    edit(save(tmp_path), options={"colour": 1})
    with pytest.raises(InputError, match="encoder 'lenet5' cannot be made again: .*'colour'"):
        load_encoder(tmp_path)
    edit(tmp_path, options={}, input_shape=[3, 28, 28])
    with pytest.raises(InputError, match="do not fit the network"):
        load_encoder(tmp_path)


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="save_encoder: encoder must be one that name='lenet5'.* differs in 0.weight$"):
        save(tmp_path, input_shape=(3, 28, 28))
    with pytest.raises(InputError, match="save_encoder: options must be options of encoder 'lenet5'; got .*'colour'"):
        save(tmp_path, options={"colour": 1})
    for extra in ({"x": object()}, {"x": math.nan}):
        with pytest.raises(InputError, match="save_encoder: options and extra must be what JSON can hold"):
            save(tmp_path, extra=extra)
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = trained()
    save(tmp_path, old)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(RunError, match="^save_encoder: cannot write to .*: No space left on device; "):
            save(tmp_path, trained("mlp", (6,)), name="mlp", input_shape=(6,))
    assert same_bits(old, load_encoder(tmp_path)) and len(list(tmp_path.iterdir())) == 2


# Probes


def directions(n: int, seed: int) -> tuple[Tensor, Tensor]:
    g = Generator().manual_seed(seed)
    y = torch.rand(n, generator=g) < 0.4
    return torch.randn(n, 5, generator=g) + y[:, None] * torch.tensor([1.0, 1.0, 0, 0, 0]), y


def slow_knn(z: Tensor, y: Tensor, z_test: Tensor, y_test: Tensor, k: int, temperature: float) -> float:
    right = 0
    for row, truth in zip(z_test.double(), y_test, strict=True):
        cosines = [float(row @ other / row.norm() / other.norm()) for other in z.double()]
        nearest = sorted(range(len(z)), key=lambda i: -cosines[i])[:k]
        votes = {True: 0.0, False: 0.0}
        for i in nearest:
            votes[bool(y[i])] += math.exp(cosines[i] / temperature)
        right += (votes[True] > votes[False]) == bool(truth)
    return right / len(z_test)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.1), (7, 0.1), (8, 0.01), (60, 1.0)])
@pytest.mark.parametrize("piece", [1, 1000, 1 << 24])
def test_knn_equals_the_slow_loop(k: int, temperature: float, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PIECE", piece)
    z, y = directions(60, 0)
    z_test, y_test = directions(41, 1)
    found = knn_accuracy(z, y.numpy(), z_test, y_test.int(), k=k, temperature=temperature)
    assert found == slow_knn(z, y, z_test, y_test, k, temperature)
    assert 0.5 < found < 1


def test_knn_survives_a_tiny_temperature() -> None:
    z, y = directions(60, 0)
    nearest = knn_accuracy(z, y, z, y, k=1)
    assert nearest == 1.0 == knn_accuracy(z, y, z, y, k=60, temperature=1e-4)


def test_linear_probe() -> None:
    y = torch.arange(200) % 3 == 0
    z = torch.randn(200, 6, generator=Generator().manual_seed(0))
    z[:, 2] = torch.where(y, 2.0, -1.0)
    unit = nn.functional.normalize(z)
    assert linear_probe_accuracy(unit, y, unit, y.numpy()) == 1.0
    assert linear_probe_accuracy(unit, y, unit, ~y) == 0.0
    noise, other = (torch.randn(400, 6, generator=Generator().manual_seed(seed)) for seed in (1, 2))
    half = torch.arange(400) % 2 == 0
    assert linear_probe_accuracy(noise, half, other, half) == pytest.approx(0.5, abs=0.1)


def test_probes_refuse_what_does_not_fit() -> None:
    z, y = directions(20, 0)
    with pytest.raises(InputError, match="^knn_accuracy: k must be a whole number from 1 to 20; got 200$"):
        knn_accuracy(z, y, z, y)
    with pytest.raises(InputError, match="knn_accuracy: temperature must be a finite number > 0; got 0"):
        knn_accuracy(z, y, z, y, k=3, temperature=0)
    with pytest.raises(InputError, match="z_test and y_test must be of shapes"):
        linear_probe_accuracy(z, y, z, y[1:])
    with pytest.raises(InputError, match="z_test must be of 5 columns, as z_train; got 4 columns"):
        knn_accuracy(z, y, z[:, 1:], y, k=3)
    with pytest.raises(InputError, match="z_train must be finite; got NaN or infinity in 1 rows, first 4"):
        knn_accuracy(z.index_fill(0, torch.tensor([4]), math.nan), y, z, y, k=3)
    with pytest.raises(InputError, match="y_train must be a vector with both classes; got one class only"):
        linear_probe_accuracy(z, torch.ones(20), z, y)


# Principal axes


def low_rank(n: int, rank: int, columns: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, rank, generator=generator) @ torch.randn(rank, columns, generator=generator)


def test_axes_lose_nothing_of_rows_of_low_rank() -> None:
    rows = low_rank(300, 40, 1500)
    along, whole = axes_encoder(rows)(rows), raw_encoder(rows)(rows)
    assert along.shape == (300, 513) and whole.shape == (300, 1501)
    torch.testing.assert_close(along[:, :-1] @ along[:, :-1].T, whole[:, :-1] @ whole[:, :-1].T, rtol=1e-3, atol=0.1)
    torch.testing.assert_close(along[:, -1], whole[:, -1], rtol=1e-3, atol=0)  # √d, the mean length of a row


def test_axes_are_those_of_largest_variance() -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.cat([low_rank(600, 3, 900), torch.randn(600, 300, generator=generator)], dim=1)
    z = axes_encoder(rows)(rows)[:, :-1]
    spread = z.square().mean(dim=0)
    assert (spread[:200].diff() <= 1e-3).all()
    assert spread[:3].sum() > 890, "three axes hold the 900 columns that go together"
    assert spread[3:].max() < 10


def test_axes_of_few_rows_and_of_few_columns() -> None:
    few = low_rank(20, 20, 1100)
    z = axes_encoder(few)(few)
    assert z.shape == (20, 513) and (z[:, 20:-1] == 0).all()
    narrow = low_rank(50, 6, 6)
    assert axes_encoder(narrow)(narrow).shape == (50, 7)
    images = (255 * torch.rand(30, 3, 20, 20)).to(torch.uint8)
    assert axes_encoder(images)(images).shape == (30, 513)


def test_axes_before_any_rows_are_orthonormal_and_always_the_same() -> None:
    first, second = (make_encoder("axes", (1200,)) for _ in range(2))
    assert isinstance(first, Axes) and isinstance(second, Axes)
    assert torch.equal(first.directions, second.directions)
    torch.testing.assert_close(first.directions.T @ first.directions, torch.eye(512), rtol=0, atol=1e-5)


def test_plain_rows_are_taken_along_axes_where_they_are_wide() -> None:
    assert plain_encoder(low_rank(30, 5, 1024))[0] == "raw"
    assert plain_encoder(low_rank(30, 5, 1025))[0] == "axes"
    assert plain_encoder(low_rank(30, 5, 10), along=True)[0] == "axes"


def test_axes_come_back_bit_for_bit(tmp_path: Path) -> None:
    rows = low_rank(100, 30, 1100)
    encoder = axes_encoder(rows, seed=3)
    save_encoder(tmp_path, encoder, name="axes", input_shape=(1100,), options={}, extra={})
    assert torch.equal(load_encoder(tmp_path)(rows), encoder(rows))
