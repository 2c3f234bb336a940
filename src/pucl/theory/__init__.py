"""The statements of the paper in numbers: both sides of each on problems whose truth is known, and a verdict."""
