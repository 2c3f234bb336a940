"""Encoders that are not trained here, of rows or texts: rows are embedded once, and their vectors may be projected."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.bench.grid.cells import EncoderCell
from pucl.bench.grid.decode import from_json
from pucl.bench.grid.recipes import view_of
from pucl.cache import row_keys
from pucl.encoders.embedding import embed
from pucl.encoders.frozen.embedding import embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.frozen.views import view_vectors
from pucl.encoders.inputs import Encoder, Standardise, as_rows
from pucl.encoders.raw import raw
from pucl.fitting.project import train_projection
from pucl.losses import make_objective
from pucl.seeds import seed_of
from pucl.texts import SPREAD, TextEncoder, scaling_of, vectors_of
from pucl.training.config import TrainConfig
from pucl.training.pretraining import Pretrained

OWNER = "pucl bench"
BankKey = tuple[str, tuple[int, ...]]  # of a bank: the encoder, and the shape of the rows


class VectorBank(ABC):
    """The vectors of all rows that an encoder has seen, by the content of the row: each is embedded once.

    The tasks made of one data set share its rows. Between processes the cache on disk is shared, if there is one.
    """

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._vectors = torch.empty(0)

    def of(self, x: Any) -> Tensor:
        """Vectors (n, k) of raw rows, on the CPU."""
        rows, keys = self._keyed(x)
        new = {key: number for number, key in enumerate(keys) if key not in self._places}
        if new:
            vectors = self._embedded(rows, [*new.values()])
            self._places |= {key: len(self._places) + number for number, key in enumerate(new)}
            self._vectors = torch.cat([self._vectors.reshape(-1, vectors.shape[1]), vectors])
        return self._vectors[[self._places[key] for key in keys]]

    @abstractmethod
    def _keyed(self, x: Any) -> tuple[Any, Sequence[Hashable]]:
        """Rows as they are embedded, and a key for the content of each."""

    @abstractmethod
    def _embedded(self, rows: Any, numbers: list[int]) -> Tensor:
        """The vectors of some of the rows."""


class RowBank(VectorBank):
    """The vectors of images, or other rows of numbers, by a frozen encoder."""

    def __init__(self, encoder: FrozenEncoder, device: str) -> None:
        super().__init__()
        self.encoder, self.device = encoder, torch.device(device)

    def _keyed(self, x: Any) -> tuple[Tensor, Sequence[Hashable]]:
        rows = as_rows(x, owner=OWNER).cpu()
        return rows, row_keys(rows.numpy())

    def _embedded(self, rows: Tensor, numbers: list[int]) -> Tensor:
        return embed_frozen(self.encoder, rows[numbers], owner=OWNER, device=self.device)


class TextBank(VectorBank):
    """The vectors of texts by an encoder that has learnt what it learns."""

    def __init__(self, name: str, encoder: TextEncoder) -> None:
        super().__init__()
        self.name, self.encoder = name, encoder

    def _keyed(self, x: Any) -> tuple[list[str], Sequence[Hashable]]:
        return list(x), list(x)

    def _embedded(self, rows: list[str], numbers: list[int]) -> Tensor:
        return torch.from_numpy(vectors_of(self.encoder, [rows[number] for number in numbers], name=self.name))


class PretrainedEncoder(Encoder):
    """Raw rows → vectors of an encoder, from its bank → embeddings, by scaling or a trained projection."""

    def __init__(self, bank: VectorBank, projection: Encoder) -> None:
        super().__init__(Standardise(torch.zeros(1), torch.ones(1)), projection)
        self.bank = bank
        self.eval()

    def forward(self, x: Any) -> Tensor:
        """Embeddings of raw rows, on the device of the projection or on the CPU."""
        device = next((p.device for p in self.network.parameters()), torch.device("cpu"))
        out: Tensor = self.network(self.bank.of(x).to(device))
        return out


def text_projection(vectors: Tensor) -> Encoder:
    """Vectors of texts with the scaling of `TextVectors`, their variances summing to the number of dimensions."""
    mean, scale = map(torch.from_numpy, scaling_of(vectors.numpy()))
    width = vectors.shape[1]
    return Encoder(Standardise(mean, scale * (SPREAD / width) ** 0.5), raw((width,))).eval()


@torch.no_grad()
def embed_rows(encoder: nn.Module, x: Any, *, batch_size: int = 4096, normalise: bool = True) -> Tensor:
    """As `embed`; the vectors of an encoder with published weights are looked up for all rows at once."""
    if not isinstance(encoder, PretrainedEncoder):
        return embed(encoder, x, batch_size=batch_size, normalise=normalise)
    z = embed(encoder.network, encoder.bank.of(x), batch_size=batch_size, normalise=False)
    return F.normalize(z, dim=1) if normalise else z


def train_on_vectors(
    cell: EncoderCell, bank: RowBank, rows: Tensor, labelled: Tensor, prior: float | None, config: TrainConfig
) -> Pretrained:
    """A projection of frozen vectors, trained by the objective of a cell on views that are embedded once.

    The views are not cached: every seed has its own.
    """
    recipe = cell.recipe
    views = view_vectors(
        bank.encoder, rows, bank.of(rows), view_of(recipe.view, recipe.view_options),
        seed=seed_of(config.seed, "bench views", 0), owner=OWNER, device=bank.device, keep=False,
    )  # fmt: skip
    objective = make_objective(
        cell.objective, temperature=recipe.temperature, prior=prior, **from_json(cell.objective_options)
    )
    return train_projection(views, labelled, objective=objective, config=config, device=bank.device)
