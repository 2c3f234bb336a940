"""The views of SimCLR against slow loops, and the distribution of what they draw."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.views import make_view
from pucl.views.blur import draw_sigma, gaussian_blur
from pucl.views.colour import LUMA, QUARTER_TURN, Colour, draw_colour, recolour
from pucl.views.crop import Crop, crop_and_flip, draw_crop
from pucl.views.simclr import apply
from view_examples import assert_rate, assert_uniform, images, seeded, some_colours, some_crops

Array = NDArray[np.float64]
SHAPES = [(3, 9, 9), (3, 7, 12), (1, 8, 5)]
MANY = 20_000
YIQ = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])


def whole(n: int) -> Crop:
    zero, one = torch.zeros(n), torch.ones(n)
    return Crop(zero, zero, one, one, zero.bool())


def as_is(n: int) -> Colour:
    one = torch.ones(n)
    return Colour(one, one, one, torch.zeros(n), torch.zeros(n).bool())


# Slow references: one image (c, h, w), one pixel at a time, in float64.


def slow_crop(image: Array, left: float, top: float, width: float, height: float, flip: bool) -> Array:
    c, h, w = image.shape
    out = np.zeros_like(image)
    for i in range(h):
        for j in range(w):
            source = w - 1 - j if flip else j
            px = min(max((left + width * (source + 0.5) / w) * w - 0.5, 0.0), w - 1.0)
            py = min(max((top + height * (i + 0.5) / h) * h - 0.5, 0.0), h - 1.0)
            x0, y0 = int(px), int(py)
            x1, y1 = min(x0 + 1, w - 1), min(y0 + 1, h - 1)
            fx, fy = px - x0, py - y0
            for k in range(c):
                upper = (1 - fx) * image[k, y0, x0] + fx * image[k, y0, x1]
                lower = (1 - fx) * image[k, y1, x0] + fx * image[k, y1, x1]
                out[k, i, j] = (1 - fy) * upper + fy * lower
    return out


def slow_luma(colour: Array) -> float:
    return float(0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]) if len(colour) == 3 else float(colour[0])


def slow_colour(image: Array, bright: float, contrast: float, saturation: float, hue: float, grey: bool) -> Array:
    c, h, w = image.shape
    out: Array = image * bright
    mean = sum(slow_luma(out[:, i, j]) for i in range(h) for j in range(w)) / (h * w)
    out[:] = contrast * out + (1 - contrast) * mean
    if c == 1:
        return out
    for i in range(h):
        for j in range(w):
            luma = slow_luma(out[:, i, j])
            pixel = saturation * out[:, i, j] + (1 - saturation) * luma
            tone, first, second = YIQ @ pixel
            cos, sin = math.cos(2 * math.pi * hue), math.sin(2 * math.pi * hue)
            pixel = np.linalg.solve(YIQ, np.array([tone, cos * first - sin * second, sin * first + cos * second]))
            out[:, i, j] = slow_luma(pixel) if grey else pixel
    return out


def slow_blur(image: Array, sigma: float) -> Array:
    c, h, w = image.shape
    radius = max(1, min(h, w) // 20)
    out = np.zeros_like(image)
    for i in range(h):
        for j in range(w):
            total = 0.0
            for a in range(max(0, i - radius), min(h, i + radius + 1)):
                for b in range(max(0, j - radius), min(w, j + radius + 1)):
                    weight = math.exp(-((a - i) ** 2 + (b - j) ** 2) / (2 * sigma**2))
                    total += weight
                    for k in range(c):
                        out[k, i, j] += weight * image[k, a, b]
            out[:, i, j] /= total
    return out


def one_by_one(slow: Any, x: Tensor, *parameters: Tensor) -> Tensor:
    rows = zip(x.double().numpy(), *(p.tolist() for p in parameters), strict=True)
    return torch.as_tensor(np.stack([slow(*row) for row in rows])).float()


@pytest.mark.parametrize("shape", SHAPES)
def test_crop_and_flip_agree_with_a_slow_loop(shape: tuple[int, ...]) -> None:
    x, crop = images(5, *shape), some_crops()
    torch.testing.assert_close(crop_and_flip(x, crop), one_by_one(slow_crop, x, *crop), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_colours_agree_with_a_slow_loop(shape: tuple[int, ...]) -> None:
    x, colour = images(5, *shape), some_colours()
    torch.testing.assert_close(recolour(x, colour), one_by_one(slow_colour, x, *colour), rtol=0, atol=1e-5)


@pytest.mark.parametrize("field", Colour._fields)
def test_each_colour_step_alone_agrees_with_a_slow_loop(field: str) -> None:
    x, values = images(5, 3, 6, 6), getattr(some_colours(), field)
    colour = as_is(5)._replace(**{field: values})
    torch.testing.assert_close(recolour(x, colour), one_by_one(slow_colour, x, *colour), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [*SHAPES, (3, 44, 41)])
def test_blur_agrees_with_a_slow_loop(shape: tuple[int, ...]) -> None:
    x, sigma = images(3, *shape), torch.tensor([0.1, 0.8, 2.0])
    torch.testing.assert_close(gaussian_blur(x, sigma), one_by_one(slow_blur, x, sigma), rtol=0, atol=1e-5)


def test_the_whole_pipeline_agrees_with_the_slow_loops() -> None:
    x, crop, colour, sigma = images(5, 3, 8, 11), some_crops(), some_colours(), torch.tensor([0.5, 2, 1, 0.2, 0.1])
    slow = one_by_one(slow_crop, x, *crop)
    slow = one_by_one(slow_blur, one_by_one(slow_colour, slow, *colour), sigma)
    torch.testing.assert_close(apply(x, crop, colour, sigma), slow.clamp(0, 1), rtol=0, atol=1e-5)
    assert slow.min() < 0 and slow.max() > 1, "the test must reach the clamp"


def test_the_quarter_turn_is_that_of_yiq() -> None:
    turn = np.linalg.inv(YIQ) @ np.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]]) @ YIQ
    assert np.allclose(turn, QUARTER_TURN, rtol=0, atol=1e-9) and np.allclose(YIQ[0], LUMA, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [*SHAPES, (3, 32, 32), (3, 96, 64)])
def test_parameters_that_change_nothing_give_back_the_input(shape: tuple[int, ...]) -> None:
    x = images(4, *shape)
    atol = 1e-6 if max(shape) <= 32 else torch.finfo().eps * max(shape) / 2  # rounding of a place in [-1, 1], in pixels
    torch.testing.assert_close(apply(x, whole(4), as_is(4), torch.zeros(4)), x, rtol=0, atol=atol)
    assert torch.equal(gaussian_blur(x, torch.zeros(4)), x)
    mirrored = apply(x, whole(4)._replace(flip=torch.ones(4).bool()), as_is(4))
    torch.testing.assert_close(mirrored, x.flip(3), rtol=0, atol=atol)


@pytest.mark.parametrize("hue", [-0.3, 0.1])
def test_colours_keep_luma_and_grey(hue: float) -> None:
    x, grey = images(4, 3, 5, 6), images(4, 1, 5, 6).expand(4, 3, 5, 6)
    colour = as_is(4)._replace(hue=torch.full((4,), hue), saturation=torch.full((4,), 1.4))
    luma = torch.tensor(LUMA)[:, None, None]
    torch.testing.assert_close((recolour(x, colour) * luma).sum(1), (x * luma).sum(1))
    torch.testing.assert_close(recolour(grey, colour), grey)


# What is drawn. With fixed seeds nothing here is flaky; the bounds are those of statistics (p < 1e-3 on each side).


def uniform(rows: int, n: int = MANY) -> Tensor:
    return torch.rand(rows, n, generator=seeded(1))


@pytest.mark.parametrize("size", [(32, 32), (30, 36), (20, 60), (60, 20)])
def test_distribution_of_crops(size: tuple[int, int]) -> None:
    crop = draw_crop(uniform(5), size, scale=(0.2, 1.0), aspect=(3 / 4, 4 / 3), flip=0.5)
    area = crop.width * crop.height
    assert_uniform(area, 0.2, 1.0)
    assert_rate(crop.flip, 0.5)
    for start, length in ((crop.left, crop.width), (crop.top, crop.height)):
        assert start.min() >= 0 and (start + length).max() <= 1 + 1e-6 and length.max() <= 1
        inside = length < 0.999
        assert_uniform((start / (1 - length))[inside], 0, 1)
    q = size[1] / size[0]
    shape = (q * crop.width / crop.height).log()
    low = (math.log(q) + area.log()).clamp(min=math.log(3 / 4))
    high = (math.log(q) - area.log()).clamp(max=math.log(4 / 3))
    fits = high - low > 1e-3
    assert_uniform(((shape - low) / (high - low))[fits], 0, 1)
    if q == 1:
        assert_uniform(shape[area < 0.75], math.log(3 / 4), math.log(4 / 3))
    else:  # where no allowed shape fits, the box spans the longer way of the image it cannot leave
        assert ((crop.width > 0.999) | (crop.height > 0.999))[high - low < -1e-3].all()


def test_distribution_of_colours() -> None:
    colour = draw_colour(uniform(6), jitter=0.8, brightness=0.4, contrast=0.3, saturation=1.5, hue=0.1, greyscale=0.2)
    jittered = colour.brightness != 1
    assert_rate(jittered, 0.8)
    assert_rate(colour.grey, 0.2)
    assert_rate(colour.grey & jittered, 0.16)
    ranges = {"brightness": (0.6, 1.4), "contrast": (0.7, 1.3), "saturation": (0, 2.5), "hue": (-0.1, 0.1)}
    for name, (low, high) in ranges.items():
        values = getattr(colour, name)
        assert_uniform(values[jittered], low, high)
        assert (values[~jittered] == (0 if name == "hue" else 1)).all()
    together = torch.corrcoef(torch.stack([getattr(colour, name)[jittered] for name in ranges]))
    assert (together - torch.eye(4)).abs().max() < 4 / math.sqrt(0.8 * MANY)


def test_distribution_of_blur() -> None:
    sigma = draw_sigma(uniform(2), blur=0.3, sigma=(0.1, 2.0))
    assert_rate(sigma > 0, 0.3)
    assert_uniform(sigma[sigma > 0], 0.1, 2.0)


def test_the_view_draws_with_its_documented_defaults() -> None:
    x, u = images(50, 3, 10, 12), torch.rand(50, 13, generator=seeded(3)).T
    crop = draw_crop(u[:5], (10, 12), scale=(0.2, 1.0), aspect=(3 / 4, 4 / 3), flip=0.5)
    amounts = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
    colour = draw_colour(u[5:11], jitter=0.8, greyscale=0.2, **amounts)
    assert torch.equal(make_view("simclr")(x, seeded(3)), apply(x, crop, colour))
    half = draw_colour(u[5:11], jitter=0.8, greyscale=0.2, **{name: v / 2 for name, v in amounts.items()})
    assert torch.equal(make_view("simclr", strength=0.5)(x, seeded(3)), apply(x, crop, half))
    sigma = draw_sigma(u[11:], blur=0.5, sigma=(0.1, 2.0))
    assert torch.equal(make_view("simclr", blur=0.5)(x, seeded(3)), apply(x, crop, colour, sigma))


def test_options_switch_the_steps_off_and_on() -> None:
    x = images(400, 3, 8, 8)
    still: dict[str, Any] = {"scale": (1, 1), "flip": 0, "jitter": 0, "greyscale": 0}
    torch.testing.assert_close(make_view("simclr", **still)(x, seeded()), x, rtol=0, atol=1e-6)
    flipped = make_view("simclr", **still | {"flip": 0.5})(x, seeded())
    mirrored, kept = ((flipped - other).abs().amax(dim=(1, 2, 3)) < 1e-5 for other in (x.flip(3), x))
    assert (mirrored ^ kept).all()
    assert_rate(mirrored, 0.5)
    grey = make_view("simclr", **still | {"greyscale": 1})(x, seeded())
    torch.testing.assert_close(grey, grey[:, :1].expand_as(grey))
    assert not torch.allclose(make_view("simclr", **still | {"jitter": 1})(x, seeded()), x, atol=1e-2)


@pytest.mark.parametrize("shape", [(1, 1, 5, 5), (1, 3, 32, 32), (3, 3, 1, 1), (4, 1, 2, 30), (4, 3, 40, 3)])
@pytest.mark.parametrize("blur", [0.0, 1.0])
def test_corners(shape: tuple[int, ...], blur: float) -> None:
    x = images(*shape)
    out = make_view("simclr", blur=blur, strength=3.0)(x, seeded())
    assert out.shape == x.shape and out.dtype == torch.float32
    assert out.isfinite().all() and out.min() >= 0 and out.max() <= 1


def test_uint8_is_float_over_255() -> None:
    x = torch.randint(256, (6, 3, 8, 9), generator=seeded(), dtype=torch.uint8)
    view = make_view("simclr")
    assert torch.equal(view(x, seeded()), view(x / 255, seeded()))
    assert view(x.double() / 255, seeded()).dtype == torch.float32


def test_grey_images_stay_grey_and_every_image_has_its_own_parameters() -> None:
    one = images(1, 1, 8, 8)
    view = make_view("simclr", blur=0.5)
    out = view(one.expand(20, 3, 8, 8), seeded())
    torch.testing.assert_close(out, out[:, :1].expand_as(out))
    out = view(one.expand(20, 1, 8, 8), seeded())
    assert len(torch.unique(out.flatten(1), dim=0)) == 20


def test_compiles_into_one_graph() -> None:
    def view(x: Tensor, u: Tensor) -> Tensor:
        crop = draw_crop(u[:5], (8, 6), scale=(0.2, 1.0), aspect=(3 / 4, 4 / 3), flip=0.5)
        colour = draw_colour(u[5:11], jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, greyscale=0.2)
        return apply(x, crop, colour, draw_sigma(u[11:], blur=0.5, sigma=(0.1, 2.0)))

    x, u = images(7, 3, 8, 6), uniform(13, 7)
    torch.testing.assert_close(torch.compile(view, backend="aot_eager", fullgraph=True)(x, u), view(x, u))
