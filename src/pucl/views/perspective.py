"""Perspective, upside-down and quarter turns of images, as one bilinear resampling of the whole batch."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

PERSPECTIVE_DRAWS = 11  # uniform numbers an image needs


class Pose(NamedTuple):
    """How every image is turned.

    Attributes:
        corners: where the corners of the image go, (n, 4, 2) as shares of width and height: upper left, upper right,
            lower right, lower left.
        upset: whether it is then put upside down, (n,).
        turned: whether it is then turned by a quarter, against the clock, (n,).
    """

    corners: Tensor
    upset: Tensor
    turned: Tensor


def draw_pose(uniform: Tensor, *, perspective: float, distortion: float, upset: float, turn: float) -> Pose:
    """Poses from uniform numbers (`PERSPECTIVE_DRAWS`, n).

    With probability `perspective` each corner moves inwards by up to half of `distortion` of either side, uniformly.
    """
    of_any, of_upset, of_turn, *of_corners = uniform.unbind()
    inwards = torch.stack(of_corners, dim=1).view(-1, 4, 2) * (distortion / 2)
    inwards = torch.where((of_any < perspective)[:, None, None], inwards, 0.0)
    left, top = (inwards[:, :, axis] for axis in (0, 1))
    across = torch.stack([left[:, 0], 1 - left[:, 1], 1 - left[:, 2], left[:, 3]], dim=1)
    down = torch.stack([top[:, 0], top[:, 1], 1 - top[:, 2], 1 - top[:, 3]], dim=1)
    return Pose(torch.stack([across, down], dim=2), of_upset < upset, of_turn < turn)


def pose_images(x: Tensor, pose: Pose) -> Tensor:
    """Images (n, c, h, w) with their corners moved, then upside down, then turned; black comes in from outside.

        (u', v', 1)ᵀ ∝ M⁻¹ (u, v, 1)ᵀ

    where (u, v) in [0, 1]² is a place between the centres of the outermost pixels of the result, (u', v') where it is
    read in `x`, bilinearly, and M the projective map of the unit square onto the four corners (Heckbert 1989). Its
    inverse is taken by cofactors: nothing waits for the device.
    """
    n, _, h, w = x.shape
    v, u = torch.meshgrid(
        *(torch.linspace(0, 1, side, device=x.device, dtype=x.dtype) for side in (h, w)), indexing="ij"
    )
    places = torch.stack([u, v], dim=2).expand(n, h, w, 2)
    back = torch.stack([1 - places[..., 1], places[..., 0]], dim=3)  # a turn against the clock came from here
    places = torch.where(pose.turned[:, None, None, None], back, places)
    mirrored = torch.stack([places[..., 0], 1 - places[..., 1]], dim=3)
    places = torch.where(pose.upset[:, None, None, None], mirrored, places)
    a, b, c = _inverse(*pose.corners.unbind(1))
    nearness = _along(c, places)
    across, down = _along(a, places) / nearness, _along(b, places) / nearness
    stretch = [(side - 1) / side for side in (w, h)]  # from centres of pixels to their edges
    grid = torch.stack([(2 * across - 1) * stretch[0], (2 * down - 1) * stretch[1]], dim=3)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _along(row: tuple[Tensor, Tensor, Tensor], places: Tensor) -> Tensor:
    """One row of a matrix times (u, v, 1), for every image and place, (n, h, w)."""
    of_u, of_v, constant = (entry[:, None, None] for entry in row)
    return of_u * places[..., 0] + of_v * places[..., 1] + constant


def _inverse(p0: Tensor, p1: Tensor, p2: Tensor, p3: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
    """The rows of M⁻¹, up to a common factor, for corners (n, 2) in the order of `Pose`."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = (p.unbind(1) for p in (p0, p1, p2, p3))
    dx1, dx2, sx = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, sy = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    area = dx1 * dy2 - dx2 * dy1
    g, k = (sx * dy2 - dx2 * sy) / area, (dx1 * sy - sx * dy1) / area
    a, b, c = x1 - x0 + g * x1, x3 - x0 + k * x3, x0
    d, e, f = y1 - y0 + g * y1, y3 - y0 + k * y3, y0
    return (
        (e - f * k, c * k - b, b * f - c * e),
        (f * g - d, a - c * g, c * d - a * f),
        (d * k - e * g, b * g - a * k, a * e - b * d),
    )
