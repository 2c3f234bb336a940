"""``st:NAME``: a sentence encoder of sentence-transformers, from its hub or a folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from pucl.device import pick_device
from pucl.errors import Described, bad_argument
from pucl.texts.published import Encode, PublishedEncoder
from pucl.weights import need

PACKAGE, INSTALL, PARTS = "sentence_transformers", "sentence-transformers", "modules.json"
BATCH = 64  # texts at a time


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
        """The model in a folder; its parts must be those of sentence-transformers itself."""
        self._check_parts()
        model = need(PACKAGE, f"text encoder '{self.scheme}'", f"pip install {INSTALL}").SentenceTransformer(
            str(folder), device=str(pick_device(None)), local_files_only=True, trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )  # fmt: skip
        return lambda texts: model.encode(texts, batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False)

    def _check_parts(self) -> None:
        """modules.json names classes by their modules, which are imported: only those of the package may be."""
        for part in json.loads(self.files.get(PARTS, b"[]")):
            if not str(part["type"]).startswith(f"{PACKAGE}."):
                got = Described(str(part["type"]))
                raise bad_argument(f"text encoder '{self.scheme}'", PARTS, f"parts of {PACKAGE} only", got)
