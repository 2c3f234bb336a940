"""The shape of one row, and how many numbers it holds."""

import math

Shape = tuple[int, ...]


def flat_size(input_shape: Shape) -> int:
    """How many numbers one row holds."""
    return math.prod(input_shape)
