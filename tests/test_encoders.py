"""The networks: layers, sizes and shapes."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from pucl.encoders import embedding_dim, make_encoder
from pucl.errors import InputError


def size(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def kinds(network: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in network.children()]


def maps(network: nn.Module, x: Tensor) -> tuple[int, ...]:
    """The shape before the mean over the image."""
    return tuple(nn.Sequential(*list(network.children())[:-2])(x).shape)


def first_conv(network: nn.Module) -> nn.Conv2d:
    return next(layer for layer in network.modules() if isinstance(layer, nn.Conv2d))


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


@pytest.mark.parametrize(("height", "width", "block"), [(31, 200, 1), (63, 64, 1), (64, 64, 2), (100, 130, 3)])
def test_thumbnails(height: int, width: int, block: int) -> None:
    network, small = (
        make_encoder("thumbnail_cnn", (3, height, width)).eval(),
        make_encoder("small_cnn", (3, 8, 8)).eval(),
    )
    small.load_state_dict({name.removeprefix("1."): value for name, value in network.state_dict().items()})
    x = torch.rand(2, 3, height, width, generator=Generator().manual_seed(0))
    h, w = height // block, width // block
    cut = x[:, :, : h * block, : w * block]  # what is left over at the edges is not seen
    means = cut.reshape(2, 3, h, block, w, block).mean(dim=(3, 5))
    with torch.no_grad():
        torch.testing.assert_close(network(x), small(means))


@pytest.mark.slow
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
