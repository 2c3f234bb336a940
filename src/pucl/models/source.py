"""Where a process that has not loaded a model yet finds it: in a folder, or in the bytes that came with its work."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pucl.device import pick_device
from pucl.errors import Described, InputError, bad_argument
from pucl.models.folder import checksum_of, files_of, load_model, read_card, save_model
from pucl.models.model import Model

OWNER = "pucl.scorer"
LOADED = 2  # models that a process keeps


@dataclass(frozen=True)
class ModelSource:
    """A model that is not loaded yet.

    Attributes:
        checksum: of the model; two sources with the same one are equal.
        folder: the model's folder.
        files: its files by name, for a model in memory and for machines that do not share a disc.
    """

    checksum: str
    folder: Path = field(default=Path(), compare=False)
    files: Mapping[str, bytes] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_folder(cls, folder: str | Path) -> "ModelSource":
        """The model in a folder, of which only the card is read."""
        read_card(folder)
        return cls(checksum_of(folder), Path(folder).absolute())

    @classmethod
    def of_model(cls, model: Model) -> "ModelSource":
        """A model in memory, as the files that `save_model` writes."""
        if model.encoder_name is None or (model.front is not None and model.front.stored_as is None):
            got = Described("one with your own code, which cannot be stored")
            raise bad_argument(OWNER, "model", "one whose encoder is stored with it", got)
        with tempfile.TemporaryDirectory() as folder:
            save_model(folder, model)
            return cls(checksum_of(folder), files=files_of(folder))

    def with_files(self) -> "ModelSource":
        """The same model with its files."""
        return self if self.files is not None else ModelSource(self.checksum, self.folder, files_of(self.folder))

    def load(self, device: str | None = None) -> Model:
        """The model on a device, by default a GPU if there is one; a process loads it once."""
        return _loaded(self, str(pick_device(device)))


@lru_cache(LOADED)
def _loaded(source: ModelSource, device: str) -> Model:
    if source.files is None:
        model = load_model(source.folder)
        if checksum_of(source.folder) != source.checksum:
            raise InputError(f"the model in {source.folder} has been replaced since it was named", owner=OWNER)
    else:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in source.files.items():
                (Path(folder) / name).write_bytes(content)
            model = load_model(folder)
    return model.to(pick_device(device))
