"""The released view of Fashion-MNIST: perspective against a loop over pixels, and how often each step is taken."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.views import make_view
from pucl.views.blur import gaussian_blur
from pucl.views.perspective import PERSPECTIVE_DRAWS, Pose, draw_pose, pose_images
from view_examples import assert_rate, images, seeded

CORNERS = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def straight(n: int, *, upset: bool = False, turned: bool = False) -> Pose:
    return Pose(torch.tensor(CORNERS).expand(n, 4, 2), torch.full((n,), upset), torch.full((n,), turned))


def slow_perspective(image: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """One grey image: eight equations for the map from the moved corners back, then pixel by pixel."""
    h, w = image.shape
    equations, values = [], []
    for (u, v), (p, q) in zip(corners, CORNERS, strict=True):
        x, y, a, b = u * (w - 1), v * (h - 1), p * (w - 1), q * (h - 1)
        equations += [[x, y, 1, 0, 0, 0, -a * x, -a * y], [0, 0, 0, x, y, 1, -b * x, -b * y]]
        values += [a, b]
    matrix = np.append(np.linalg.solve(np.array(equations), np.array(values)), 1).reshape(3, 3)
    out = np.zeros_like(image)
    for i in range(h):
        for j in range(w):
            px, py, depth = matrix @ np.array([j, i, 1.0])
            px, py = px / depth, py / depth
            for row in (int(np.floor(py)), int(np.floor(py)) + 1):
                for column in (int(np.floor(px)), int(np.floor(px)) + 1):
                    if 0 <= row < h and 0 <= column < w:
                        out[i, j] += image[row, column] * (1 - abs(px - column)) * (1 - abs(py - row))
    return out


@pytest.mark.parametrize("shape", [(9, 9), (7, 12)])
def test_perspective_equals_a_loop(shape: tuple[int, int]) -> None:
    x = torch.rand(4, 1, *shape, generator=seeded(0), dtype=torch.float64)
    draws = torch.rand(PERSPECTIVE_DRAWS, 4, generator=seeded(1), dtype=torch.float64)
    pose = draw_pose(draws, perspective=1.0, distortion=0.5, upset=0.0, turn=0.0)
    for image, found, corners in zip(x, pose_images(x, pose), pose.corners, strict=True):
        expected = slow_perspective(image[0].numpy(), corners.numpy())
        torch.testing.assert_close(found[0], torch.from_numpy(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("upset", "turned"), [(False, False), (True, False), (False, True), (True, True)])
def test_turns_move_whole_pixels(upset: bool, turned: bool) -> None:
    x = torch.rand(3, 3, 8, 8, generator=seeded(0))
    expected: Tensor = x.flip(2) if upset else x
    expected = torch.rot90(expected, 1, (2, 3)) if turned else expected  # against the clock
    torch.testing.assert_close(pose_images(x, straight(3, upset=upset, turned=turned)), expected, rtol=0, atol=1e-5)


def test_what_a_pose_draws() -> None:
    draws = torch.rand(PERSPECTIVE_DRAWS, 20_000, generator=seeded(0))
    pose = draw_pose(draws, perspective=0.5, distortion=0.5, upset=0.3, turn=0.7)
    inwards = (pose.corners - torch.tensor(CORNERS)).abs()
    assert float(inwards.max()) <= 0.25 and float(inwards.amax(dim=0).min()) > 0.24
    assert ((pose.corners >= 0) & (pose.corners <= 1)).all()
    assert_rate(inwards.sum(dim=(1, 2)) > 0, 0.5)
    assert_rate(pose.upset, 0.3)
    assert_rate(pose.turned, 0.7)


def test_a_wide_blur_keeps_the_sum_and_reaches_further() -> None:
    point = torch.zeros(1, 1, 28, 28)
    point[..., 14, 14] = 1
    sigma = torch.tensor([2.0])
    short, wide = gaussian_blur(point, sigma), gaussian_blur(point, sigma, reach=6)
    assert float(wide.sum()) == pytest.approx(1, abs=1e-3)
    assert float(wide[0, 0, 14, 20]) > 0 and float(short[0, 0, 14, 20]) == 0
    profile = wide[0, 0, 14] / wide[0, 0, 14, 14]
    assert float(profile[16]) == pytest.approx(np.exp(-0.5), rel=1e-4)


def test_the_view_as_a_whole() -> None:
    """A bright lower left corner lands in every corner; views differ from row to row, and follow from the seed."""
    x = torch.zeros(4000, 1, 28, 28)
    x[:, :, 14:, :14] = 1
    view = make_view("released_fmnist")
    first, again = view(x, seeded(0)), view(x, seeded(0))
    assert torch.equal(first, again) and not torch.equal(first, view(x, seeded(1)))
    assert first.shape == x.shape and first.min() >= 0 and first.max() <= 1
    halves = (slice(14), slice(14, 28))
    quarters = [float(first[:, 0, rows, columns].mean()) for rows in halves for columns in halves]
    assert max(quarters) < 1.15 * min(quarters), "mirrored, upset and turned with ½ each: no corner is preferred"
    assert view(images(2, 3, 9, 9), seeded(0)).shape == (2, 3, 9, 9)
