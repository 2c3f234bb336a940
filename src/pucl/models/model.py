"""A fitted model: its input schema, its encoder and its calibrated head."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.heads.calibration import Calibrated
from pucl.models.evidence import Evidence
from pucl.models.schema import Schema


@dataclass(frozen=True)
class Model:
    """From people's rows to the probability of being positive.

    Attributes:
        schema: how rows come in.
        encoder: rows → embeddings.
        encoder_name: the registered encoder it was made by; None for a network of one's own.
        head: embeddings → calibrated logits.
        about: what it was trained on, how, and how good it is, as JSON can hold it.
        evidence: what a report shows beside that.
    """

    schema: Schema
    encoder: Encoder
    encoder_name: str | None
    head: Calibrated
    about: Mapping[str, Any]
    evidence: Evidence | None = None

    @property
    def prior(self) -> float:
        """π, the share of positives among the unlabelled rows it was trained on."""
        return float(self.about["prior"]["value"])

    def embed(self, rows: Tensor) -> Tensor:
        """Embeddings (n, k) of rows as the encoder takes them, of length 1."""
        return embed(self.encoder, rows)

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """Calibrated logits (n,) of rows as the encoder takes them: positive above 0."""
        found: Tensor = self.head(self.embed(rows))
        return found


class Scorer(nn.Module):
    """Encoder, normalisation and head in one: rows → the probability of being positive, (n,)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.encoder, self.head = model.encoder, model.head

    def forward(self, rows: Tensor) -> Tensor:
        """Probabilities (n,) of rows as the encoder takes them."""
        logits: Tensor = self.head(F.normalize(self.encoder(rows), dim=1))
        return torch.sigmoid(logits)
