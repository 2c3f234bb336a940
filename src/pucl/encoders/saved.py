"""Encoders on disk: weights as safetensors, everything else as JSON; nothing is ever unpickled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from pucl import __version__
from pucl.encoders import make_encoder
from pucl.encoders.inputs import Encoder, Standardise
from pucl.errors import Described, InputError, RunError, about_file, bad_argument, one_line, signed_by
from pucl.files import replace_file
from pucl.registry import current_name

FORMAT = 1
STEM = "encoder"
WEIGHTS, ABOUT = f"{STEM}.safetensors", f"{STEM}.json"
SAVE, LOAD = "pucl.save_encoder", "pucl.load_encoder"


@signed_by(SAVE)
def save_encoder(
    folder: str | Path,
    encoder: Encoder,
    *,
    name: str | None,
    input_shape: Sequence[int],
    options: Mapping[str, Any],
    extra: Mapping[str, Any],
    stem: str = STEM,
) -> Path:
    """Write `encoder.safetensors`, then `encoder.json`, each whole or not at all.

    Args:
        folder: where to; made when missing, what it holds under these names is replaced.
        encoder: what to save, from any device.
        name: the registered encoder its network was made by, or None for a network of your own.
        input_shape: the shape of one row.
        options: what the network was made with, besides the shape.
        extra: anything else to keep, such as the settings of the training.
        stem: of the names of both files.

    Returns:
        The folder.
    """
    if name is not None:
        name = current_name("encoders", name)  # a model that was stored before a renaming is stored anew
        _check_rebuilds(encoder.network, name, input_shape, options)
    weights = bytes_of(_state(encoder))
    about = {
        "format": FORMAT,
        "name": name,
        "input_shape": [int(size) for size in input_shape],
        "options": dict(options),
        "version": __version__,
        "sha256": hashlib.sha256(weights).hexdigest(),
        "extra": dict(extra),
    }
    try:
        text = json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise bad_argument(SAVE, "options and extra", "what JSON can hold", Described(one_line(error))) from None
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{stem}.safetensors", weights)
        replace_file(folder / f"{stem}.json", f"{text}\n".encode())
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{SAVE}: cannot write to {folder}: {reason}; choose another folder or make room") from None
    return folder


@signed_by(LOAD)
def load_encoder(
    folder: str | Path, device: str | torch.device = "cpu", *, network: nn.Module | None = None, stem: str = STEM
) -> Encoder:
    """The encoder that `save_encoder` wrote, bit for bit, in evaluation mode on `device`.

    An encoder that is not registered needs `network`, a module like the saved one, whose weights are filled in. Files
    that are damaged, do not belong together or come from a newer format are refused. `stem` is of the names of both.
    """
    folder = Path(folder)
    about = read_about(folder / f"{stem}.json")
    tensors = _read_weights(folder / f"{stem}.safetensors", about["sha256"])
    own = network is not None
    if network is None:
        with about_file(str(folder)):
            network = _rebuilt(about, folder, tensors)
    scaling = [tensors.get(f"standardise.{part}", torch.zeros(0)) for part in ("mean", "scale")]
    encoder = Encoder(Standardise(*scaling), network)
    try:
        # The user's network is filled in place; a fresh one takes the saved tensors, in their precision.
        encoder.load_state_dict(tensors, assign=not own)
    except RuntimeError as error:
        raise InputError(f"the weights in {folder} do not fit the network: {one_line(error)}", owner=LOAD) from None
    _check_scaling(encoder, about["input_shape"], folder)
    return encoder.to(device).eval()


def _check_scaling(encoder: Encoder, shape: Sequence[Any], folder: Path) -> None:
    try:
        for part in (encoder.standardise.mean, encoder.standardise.scale):
            part.expand(tuple(shape))
    except (RuntimeError, TypeError):
        problem = f"the scaling in {folder} does not fit rows of shape {tuple(shape)}"
        raise InputError(problem, owner=LOAD) from None


def read_about(path: Path) -> dict[str, Any]:
    """What encoder.json says, with its keys and types checked."""
    if not path.is_file():
        needed = f"a folder with {path.name} and {path.stem}.safetensors"
        raise bad_argument(LOAD, "folder", needed, str(path.parent))
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}", owner=LOAD) from None
    file_format = about.get("format") if isinstance(about, dict) else None
    if not isinstance(file_format, int):
        raise bad_argument(LOAD, str(path), "written by save_encoder", Described("another JSON file"))
    if file_format > FORMAT:
        by = Described(
            f"format {file_format}, written by pucl {about.get('version', '(unknown)')}; a newer pucl can read it"
        )
        raise bad_argument(LOAD, str(path), f"of format {FORMAT} or lower", by)
    kinds = {"name": str | None, "input_shape": list, "options": dict, "sha256": str}
    wrong = [key for key, kind in kinds.items() if key not in about or not isinstance(about[key], kind)]
    if wrong:
        raise bad_argument(LOAD, str(path), "complete", Described(f"no usable {', '.join(wrong)}"))
    return dict(about)


def _read_weights(path: Path, expected: str) -> dict[str, Tensor]:
    """The tensors, read from the very bytes whose checksum was compared."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=LOAD) from None
    if hashlib.sha256(data).hexdigest() != expected:
        got = Described(f"another or a damaged one ({len(data):,} bytes)")
        raise bad_argument(LOAD, str(path), f"the file {path.stem}.json was written for (by its SHA-256)", got)
    try:
        tensors: dict[str, Tensor] = tensors_of(data)
    except SafetensorError as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}", owner=LOAD) from None
    return tensors


def _rebuilt(about: Mapping[str, Any], folder: Path, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A fresh network by the name, shape and options in encoder.json, which the stored weights fit."""
    if about["name"] is None:
        allowed, got = "a module to fill, as the saved one is not a registered encoder", Described(f"none for {folder}")
        raise bad_argument(LOAD, "network", allowed, got)
    name, shape = current_name("encoders", about["name"]), tuple(about["input_shape"])
    if not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(f"encoder {name!r} cannot be made for rows of shape {shape}", owner=LOAD)
    try:
        with torch.device("meta"):  # before any memory is taken: sizes that were changed can be of any size
            _check_weights(make_encoder(name, shape, **about["options"]), tensors, folder)
        return make_encoder(name, shape, **about["options"])
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"encoder {about['name']!r} cannot be made again: {one_line(error)}", owner=LOAD) from None


def _check_weights(network: nn.Module, tensors: Mapping[str, Tensor], folder: Path) -> None:
    need = {f"network.{key}": value.shape for key, value in network.state_dict().items()}
    odd = [key for key, shape in need.items() if key not in tensors or tensors[key].shape != shape]
    if odd:
        raise InputError(f"the weights in {folder} do not fit the network: {odd[0]}", owner=LOAD)


def _check_rebuilds(network: nn.Module, name: str, input_shape: Sequence[int], options: Mapping[str, Any]) -> None:
    """Name, shape and options make a network with the same weights, or what is saved could never be loaded."""
    try:
        with torch.device("meta"):  # shapes without numbers
            again = make_encoder(name, tuple(input_shape), **options)
    except TypeError as error:
        raise bad_argument(SAVE, "options", f"options of encoder {name!r}", Described(one_line(error))) from None
    have, need = ({key: v.shape for key, v in module.state_dict().items()} for module in (network, again))
    if have != need:
        odd = sorted(key for key in have.keys() | need.keys() if have.get(key) != need.get(key))
        got = Described(f"a network that differs in {odd[0]}")
        raise bad_argument(SAVE, "encoder", f"one that name={name!r}, input_shape and options describe", got)


def _state(encoder: Encoder) -> dict[str, Tensor]:
    """The weights on the CPU, each contiguous and in memory of its own, as the file format wants them."""
    return {
        key: v.detach().cpu().clone(memory_format=torch.contiguous_format) for key, v in encoder.state_dict().items()
    }
