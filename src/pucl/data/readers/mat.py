"""The MATLAB files of SVHN: pixels X (32, 32, 3, n) and labels y, where 10 stands for the digit 0."""

from pathlib import Path

import numpy as np

from pucl.data.sources import damaged
from pucl.data.tasks import Split
from pucl.errors import InputError


def read_svhn(path: Path) -> Split:
    """Images (n, 3, 32, 32) and the digit of each."""
    try:
        from scipy.io import loadmat  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise InputError(f"{path}: reading it needs scipy: pip install scipy") from error
    try:
        content = loadmat(path, variable_names=("X", "y"))
        x, digit = content["X"], content["y"].ravel().astype(np.int64)
    except Exception as error:  # scipy answers a damaged file in many ways
        raise damaged(path, f"not a whole SVHN file ({error or type(error).__name__})") from error
    if x.dtype != np.uint8 or x.shape != (32, 32, 3, len(digit)):
        raise damaged(path, f"{len(digit):,} labels for {x.dtype} pixels of shape {x.shape}")
    if ((digit < 1) | (digit > 10)).any():
        raise damaged(path, "labels are 1 to 10, found others")
    return Split(np.ascontiguousarray(x.transpose(3, 2, 0, 1)), digit % 10)
