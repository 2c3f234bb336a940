"""A fitted model: its input schema, its encoder and its calibrated head."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.deprecation import warn_renamed
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.heads.calibration import Calibrated
from pucl.models.evidence import Evidence
from pucl.models.record import FitRecord
from pucl.models.schema import Schema


@dataclass(frozen=True)
class Model:
    """From rows to the probability of being positive.

    Attributes:
        schema: how rows come in.
        encoder: rows → embeddings.
        encoder_name: the name of a registered encoder; None for the user's own network.
        head: embeddings, or rows where it takes these, → calibrated logits.
        record: what it was trained on, how, and how good it is.
        evidence: rows and scores that a report shows.
    """

    schema: Schema
    encoder: Encoder
    encoder_name: str | None
    head: Calibrated
    record: FitRecord
    evidence: Evidence | None = None

    @property
    def prior(self) -> float:
        """π, the share of positives among the unlabelled rows it was trained on."""
        return self.record.prior.value

    @property
    def about(self) -> dict[str, Any]:
        """The record as a dictionary, under its old name."""
        warn_renamed("pucl.Model", "about", "record")
        return self.record.to_dict()

    def embed(self, rows: Tensor) -> Tensor:
        """Embeddings (n, k), of length 1, of rows as `schema.encode` gives them."""
        return embed(self.encoder, self.schema.features(rows))

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """Calibrated logits (n,) of rows as `schema.encode` gives them: positive above 0."""
        logits: Tensor = self.head(rows if self.head.takes == "rows" else self.embed(rows))
        return logits


class RowsToProbability(nn.Module):
    """All steps in one: rows as `schema.encode` gives them → the probability of being positive, (n,)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.head, self.encoder, self.expand = model.head, model.encoder, model.schema.expand

    def forward(self, rows: Tensor) -> Tensor:
        """Probabilities (n,) of rows, in float32."""
        if self.head.takes == "embedding":
            features = rows if self.expand is None else self.expand(rows)
            rows = F.normalize(self.encoder(features), dim=1)
        logits: Tensor = self.head(rows)
        return torch.sigmoid(logits).to(torch.float32)
