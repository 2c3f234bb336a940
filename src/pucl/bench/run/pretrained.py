"""Encoders with published weights that stay as they are, or whose vectors are projected: rows are embedded once."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.bench.grid.cells import EncoderCell
from pucl.bench.grid.decode import from_json
from pucl.bench.grid.recipes import view_of
from pucl.encoders.embedding import embed
from pucl.encoders.frozen.cache import row_keys
from pucl.encoders.frozen.embedding import embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.frozen.views import view_vectors
from pucl.encoders.inputs import Encoder, as_rows
from pucl.fitting.project import train_projection
from pucl.losses import make_objective
from pucl.seeds import seed_of
from pucl.training.config import TrainConfig
from pucl.training.pretraining import Pretrained

OWNER = "pucl bench"
BankKey = tuple[str, tuple[int, ...]]  # of a bank: the encoder, and the shape of the rows


class VectorBank:
    """The vectors of all rows that a frozen encoder has seen, by the content of the row: each is embedded once.

    The tasks made of one data set share its rows. Between processes the cache on disk is shared, if there is one.
    """

    def __init__(self, encoder: FrozenEncoder, device: str) -> None:
        self.encoder, self.device = encoder, torch.device(device)
        self._places: dict[bytes, int] = {}
        self._vectors = torch.empty(0)

    def of(self, rows: Tensor) -> Tensor:
        """Vectors (n, k) of raw rows, on the CPU."""
        keys = row_keys(rows)
        new = {key: number for number, key in enumerate(keys) if key not in self._places}
        if new:
            vectors = embed_frozen(self.encoder, rows[list(new.values())], owner=OWNER, device=self.device)
            self._places |= {key: len(self._places) + number for number, key in enumerate(new)}
            self._vectors = torch.cat([self._vectors.reshape(-1, vectors.shape[1]), vectors])
        return self._vectors[[self._places[key] for key in keys]]


class PretrainedEncoder(Encoder):
    """Raw rows → vectors of a frozen encoder, from its bank → embeddings, by scaling or a trained projection."""

    def __init__(self, bank: VectorBank, projection: Encoder) -> None:
        super().__init__(bank.encoder.standardise, projection)
        self.bank = bank
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of raw rows, on the device of the projection or on the CPU."""
        device = next((p.device for p in self.network.parameters()), torch.device("cpu"))
        out: Tensor = self.network(self.bank.of(x.cpu()).to(device))
        return out


@torch.no_grad()
def embed_rows(encoder: nn.Module, x: Any, *, batch_size: int = 4096, normalise: bool = True) -> Tensor:
    """As `embed`; the vectors of an encoder with published weights are looked up for all rows at once."""
    if not isinstance(encoder, PretrainedEncoder):
        return embed(encoder, x, batch_size=batch_size, normalise=normalise)
    vectors = encoder.bank.of(as_rows(x, owner=OWNER))
    z = embed(encoder.network, vectors, batch_size=batch_size, normalise=False)
    return F.normalize(z, dim=1) if normalise else z


def train_on_vectors(
    cell: EncoderCell, bank: VectorBank, rows: Tensor, labelled: Tensor, prior: float | None, config: TrainConfig
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
