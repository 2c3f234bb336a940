"""Text encoders that people already have: a folder of files, kept with a model so that it works without them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pucl.errors import InputError, one_line
from pucl.texts import Arrays, Floats
from pucl.weights import FILES, check_settings, folder_of

NAME = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*")  # of a stored file: below the folder it is written to
SUFFIXES = tuple(pattern.removeprefix("*") for pattern in FILES)
Encode = Callable[[Sequence[str]], NDArray[np.floating]]  # texts → vectors (n, k)


@dataclass(frozen=True)
class PublishedEncoder:
    """A network of texts from a folder. Every scheme has one, which says how the folder is opened.

    Attributes:
        files: name and content of every file that is needed: settings, vocabulary and weights, no code and no pickles.
    """

    files: Mapping[str, bytes]
    scheme: ClassVar[str]
    cached: ClassVar[bool] = True

    @classmethod
    def open(cls, target: str, *, download: bool = False) -> Self:
        """The encoder in a folder, in the cache of huggingface_hub or, if allowed, from its site."""
        what = f"text encoder '{cls.scheme}:{target}'"
        cls.check_packages(what)
        folder = folder_of(target, what, owner="", download=download)
        paths = [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
        return cls({path.relative_to(folder).as_posix(): path.read_bytes() for path in paths})

    @classmethod
    def load(cls, arrays: Arrays) -> Self:
        """The encoder whose `arrays` were stored; a ValueError where they are damaged."""
        for name, content in arrays.items():
            if not NAME.fullmatch(name) or not name.endswith(SUFFIXES) or content.dtype != np.uint8:
                raise ValueError(f"{name!r} is no file of a text encoder")
        return cls({name: content.tobytes() for name, content in arrays.items()})

    @property
    def arrays(self) -> Arrays:
        """The bytes of every file."""
        return {name: np.frombuffer(content, dtype=np.uint8) for name, content in self.files.items()}

    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors (n, k), up to rounding the same whatever texts come with them."""
        if not len(texts):
            return self.encode([""])[:0]
        vectors = np.asarray(self._encode(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise InputError("gives no finite vector for every text", owner=f"text encoder '{self.scheme}'")
        return vectors

    @cached_property
    def _encode(self) -> Encode:
        with TemporaryDirectory(ignore_cleanup_errors=True) as place:
            try:
                for name, content in self.files.items():
                    path = Path(place, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                for name in (name for name in self.files if name.endswith(".json")):
                    settings = json.loads(self.files[name].decode("utf-8"))
                    check_settings(settings, f"text encoder '{self.scheme}', {name}")
                return self.opened(Path(place))
            except InputError:
                raise
            except Exception as error:
                text = one_line(error)
                problem = f"this is no encoder of texts with weights in safetensors: {text}"
                raise InputError(problem, owner=f"text encoder '{self.scheme}'") from None

    @classmethod
    def check_packages(cls, what: str) -> None:
        """Refuse, in one line, to go on without the package that is needed."""
        raise NotImplementedError

    def opened(self, folder: Path) -> Encode:
        """The network in a folder, as a function; no code of the folder is run."""
        raise NotImplementedError
