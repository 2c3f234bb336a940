"""``st:NAME``: a sentence encoder of sentence-transformers, from its hub or a folder."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pucl.device import pick_device
from pucl.errors import Described, InputError, bad_argument
from pucl.texts.published import NAME, Encode, PublishedEncoder
from pucl.weights import need

PACKAGE, INSTALL, PARTS = "sentence_transformers", "sentence-transformers", "modules.json"
BATCH = 64  # texts at a time
# Parts that import nothing their settings name, but for the activation of `Dense`, which is called without arguments.
# Others, such as `Router` and `WordEmbeddings`, call `load` of whatever class their settings name.
KINDS = ("Transformer", "Pooling", "Normalize", "Dense", "LayerNorm", "StaticEmbedding")
KIND = re.compile(rf"{PACKAGE}(\.\w+)*\.({'|'.join(KINDS)})")
ACTIVATION = re.compile(r"torch\.nn\.modules\.(activation\.\w+|linear\.Identity)")


@dataclass(frozen=True)
class TextNetwork(PublishedEncoder):
    """Vectors as the model gives them, with its own pooling and normalisation."""

    scheme: ClassVar[str] = "st"

    @classmethod
    def open(cls, target: str, *, download: bool = False) -> Self:
        """As for every scheme; a name without an organisation is one of sentence-transformers' own models."""
        own = "/" not in target and not Path(target).is_dir()
        return super().open(f"{INSTALL}/{target}" if own else target, download=download)

    @classmethod
    def check_packages(cls, what: str) -> None:
        """sentence-transformers, which brings transformers."""
        need(PACKAGE, what, f"pip install {INSTALL}")

    def opened(self, folder: Path) -> Encode:
        """The model in a folder; its parts must be some of sentence-transformers itself."""
        self._check_parts()
        model = need(PACKAGE, f"text encoder '{self.scheme}'", f"pip install {INSTALL}").SentenceTransformer(
            str(folder), device=str(pick_device(None)), local_files_only=True, trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )  # fmt: skip
        return lambda texts: model.encode(texts, batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False)

    def _check_parts(self) -> None:
        """modules.json and the settings of `Dense` name classes that are imported: only harmless ones may be."""
        for part in self._json(PARTS) if PARTS in self._named else []:
            kind, place = part["type"], part.get("path", "")
            if not KIND.fullmatch(kind) or (place and not NAME.fullmatch(place)):
                raise self._refused(PARTS, f"parts of {PACKAGE} ({', '.join(KINDS)}) in folders below", part)
            name = f"{place}/config.json".lstrip("/")
            if kind.endswith(".Dense") and not ACTIVATION.fullmatch(self._json(name)["activation_function"]):
                raise self._refused(name, "of an activation function of torch", self._json(name)["activation_function"])

    @cached_property
    def _named(self) -> Mapping[str, bytes]:
        """The files by their names as a file system sees them that takes A for a."""
        named = {name.casefold(): content for name, content in self.files.items()}
        if len(named) < len(self.files):
            raise ValueError("two of its files differ only in the case of their names")
        return named

    def _json(self, name: str) -> Any:
        return json.loads(self._named[name.casefold()].decode("utf-8"))

    def _refused(self, name: str, allowed: str, got: object) -> InputError:
        return bad_argument(f"text encoder '{self.scheme}'", name, allowed, Described(str(got)[:200]))
