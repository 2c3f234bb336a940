"""Which device to compute on: the one asked for, or a GPU if there is one."""

import os

import torch

from pucl.errors import bad_argument


def pick_device(device: str | torch.device | None = None) -> torch.device:
    """The device asked for, or a GPU if there is one; of several GPUs the one of this process."""
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or (chosen.type != "cuda" and str(chosen) != "cpu"):
        raise bad_argument("pucl", "device", "'cpu', 'cuda', 'cuda:1' …", str(device))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise bad_argument("pucl", "device", "'cpu' on a machine without a CUDA device", str(device))
    count = torch.cuda.device_count()
    if chosen.type == "cuda" and chosen.index is not None and chosen.index >= count:
        raise bad_argument("pucl", "device", f"'cpu', or 'cuda:0' to 'cuda:{count - 1}' on this machine", str(device))
    if str(chosen) == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % count)
    return chosen
