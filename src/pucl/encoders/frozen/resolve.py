"""From what the user gave as `encoder` to a frozen encoder: a name, a scheme, a module, a function, a transformer."""

import pkgutil
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import pucl.encoders.frozen as package
from pucl.encoders import make_encoder
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.frozen.functions import Function, Transformer, as_affine, check_fitted
from pucl.encoders.frozen.published import fill
from pucl.encoders.shapes import Shape
from pucl.errors import Described, bad_argument, unknown_name
from pucl.registry import get

Given = Any  # what users pass as an encoder
PREFIX, INTERNAL = "from_", ("affine",)  # of the files of schemes, and those that only a fit makes


def schemes() -> tuple[str, ...]:
    """The schemes that users can write, such as ``timm`` of ``timm:NAME``."""
    found = (module.name.removeprefix(PREFIX) for module in pkgutil.iter_modules(package.__path__)
             if module.name.startswith(PREFIX))  # fmt: skip
    return tuple(sorted(name for name in found if name not in INTERNAL))


def split(name: str) -> tuple[str, str] | None:
    """Scheme and target of ``scheme:target``; None for a registered name."""
    scheme, colon, target = name.partition(":")
    return (scheme, target) if colon else None


def is_frozen(encoder: Given, tune: str | None) -> bool:
    """Whether the encoder comes with what it knows, and is used as it is unless `tune` says otherwise.

    A module is trained, as a registered network is, unless `tune` asks for less.
    """
    if isinstance(encoder, nn.Module):
        return tune in ("frozen", "head", "auto")
    if isinstance(encoder, str):
        return encoder != "auto" and (split(encoder) is not None or get("encoders", encoder).pretrained is not None)
    return True


def check_encoder(owner: str, encoder: Given) -> None:
    """Refuse what is no encoder, and a scheme that is not known or has no target."""
    if isinstance(encoder, nn.Module) or (not isinstance(encoder, str | type) and _can_encode(encoder)):
        return
    parts = split(encoder) if isinstance(encoder, str) else None
    if parts is None:
        allowed = "a name, a scheme such as 'timm:NAME', a module, a function of rows or a fitted transformer"
        raise bad_argument(owner, "encoder", allowed, encoder)
    if parts[0] not in schemes():
        raise unknown_name("scheme of an encoder", parts[0], schemes())
    if not parts[1]:
        raise bad_argument(owner, "encoder", f"{parts[0]}:NAME with a name", encoder)


def _can_encode(encoder: Any) -> bool:
    return callable(encoder) or hasattr(encoder, "transform")


def resolve(encoder: Given, rows: Tensor, *, owner: str, download: bool = False) -> FrozenEncoder:
    """The encoder, ready to be used on rows like these.

    Args:
        encoder: what the user gave.
        rows: as a model takes them, (n, …).
        owner: what the user called.
        download: whether weights that are not on this machine may be fetched.
    """
    shape = tuple(rows.shape[1:])
    if isinstance(encoder, str):
        return _by_name(encoder, shape, owner, download)
    if isinstance(encoder, nn.Module):
        return FrozenEncoder(deepcopy(encoder), name=type(encoder).__name__)  # the user's own stays as it is
    if hasattr(encoder, "transform"):
        check_fitted(owner, encoder)
        name = type(encoder).__name__
        affine = as_affine(encoder, rows)
        if affine is None:
            return FrozenEncoder(Transformer(encoder), name=name)
        return FrozenEncoder(affine, name=name, stored_as=f"affine:{name}", options={"out": len(affine.bias)})
    return FrozenEncoder(Function(encoder), name=getattr(encoder, "__name__", type(encoder).__name__))


def _by_name(name: str, shape: Shape, owner: str, download: bool) -> FrozenEncoder:
    parts = split(name)
    if parts is None:
        return FrozenEncoder(fill(make_encoder(name, shape), name), name=name, stored_as=name, cached=True)
    scheme, target = parts
    network, options = import_module(f"{package.__name__}.{PREFIX}{scheme}").load(
        target, shape, owner=owner, download=download
    )
    stored = f"{scheme}:{Path(target).name if scheme == 'onnx' else target}"  # a model holds no folders of a machine
    return FrozenEncoder(network, name=stored, stored_as=stored, options=options, cached=True)


def build(name: str, input_shape: Shape, **options: Any) -> nn.Module:
    """The network of a scheme without its weights, which are loaded later."""
    scheme, target = name.split(":", 1)
    if scheme not in (*schemes(), *INTERNAL):
        raise unknown_name("scheme of an encoder", scheme, schemes())
    module: nn.Module = import_module(f"{package.__name__}.{PREFIX}{scheme}").build(target, input_shape, **options)
    return module


def refill(given: Given) -> nn.Module:
    """What a user gives again for a stored model, as a module: a network, a function or a transformer."""
    if isinstance(given, nn.Module):
        return given
    if hasattr(given, "transform"):
        check_fitted("pucl.load_model", given)
        return Transformer(given)
    if not callable(given):
        allowed = "a module, a function or a fitted transformer"
        raise bad_argument("pucl.load_model", "network", allowed, Described(type(given).__name__))
    return Function(given)
