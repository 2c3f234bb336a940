"""``torchvision:NAME``: a network of torchvision with its published weights, up to its classifier."""

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pucl.encoders.frozen.published import tensors_of
from pucl.encoders.preprocessing import Preprocess, Preprocessed
from pucl.encoders.shapes import Shape
from pucl.errors import Described, InputError, bad_argument
from pucl.weights import need, not_here

HASHED = re.compile(r".+-([0-9a-f]{8,64})\.pth")  # the names of files have the beginning of their SHA-256
CLASSIFIERS = ("fc", "classifier", "heads", "head")  # what torchvision calls the last part of its networks


def load(target: str, input_shape: Shape, *, owner: str, download: bool) -> tuple[nn.Module, dict[str, Any]]:
    """The network with its default weights, from torch's own cache or, if allowed, from their address."""
    models = need("torchvision.models", f"encoder 'torchvision:{target}'")
    try:
        weights = models.get_model_weights(target).DEFAULT
    except ValueError as error:
        raise InputError(f"torchvision has no model {target!r}: {' '.join(str(error).split())}", owner=owner) from None
    file = Path(torch.hub.get_dir()) / "checkpoints" / str(weights.url).rsplit("/", 1)[-1]
    if not file.is_file():
        if not download:
            raise not_here(owner, f"encoder 'torchvision:{target}'", OSError(f"no {file}"))
        try:
            weights.get_state_dict(progress=False, check_hash=True)
        except Exception as error:
            raise not_here(owner, f"encoder 'torchvision:{target}'", error, download=True) from None
    body = models.get_model(target, weights=None)
    body.load_state_dict(tensors_of(_checked(file, owner), file, owner=owner))
    settings = weights.transforms()
    side = settings.crop_size if isinstance(settings.crop_size, int) else settings.crop_size[-1]
    options: dict[str, Any] = {
        "size": [int(side), int(side)],
        "mean": [float(value) for value in settings.mean],
        "std": [float(value) for value in settings.std],
    }
    return _with(body, input_shape, **options), options


def _checked(file: Path, owner: str) -> bytes:
    """The content of a file of weights, compared with its name before any of it is parsed.

    Before torch 2.6, a file made for the purpose could run code in spite of `weights_only` (CVE-2025-32434).
    """
    data, named = file.read_bytes(), HASHED.fullmatch(file.name)
    if named is None or not hashlib.sha256(data).hexdigest().startswith(named[1]):
        got = Described(f"another or a damaged one ({len(data):,} bytes); delete it to fetch it again")
        raise bad_argument(owner, str(file), "the published file (by the SHA-256 in its name)", got)
    return data


def build(target: str, input_shape: Shape, **options: Any) -> nn.Module:
    """The network without its weights, which are loaded later."""
    models = need("torchvision.models", f"encoder 'torchvision:{target}'")
    return _with(models.get_model(target, weights=None), input_shape, **options)


def _with(body: nn.Module, shape: Shape, *, size: list[int], mean: list[float], std: list[float]) -> nn.Module:
    last = next((name for name in CLASSIFIERS if isinstance(getattr(body, name, None), nn.Module)), None)
    if last is None:
        got = Described(type(body).__name__)
        raise bad_argument("encoder 'torchvision'", "NAME", "a classifier of images", got)
    setattr(body, last, nn.Identity())
    return Preprocessed(Preprocess(shape[0], (size[0], size[1]), mean, std), body)
