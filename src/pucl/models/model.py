"""A fitted model: its input schema, its encoder and its calibrated head."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch import device as Device

from pucl.deprecation import warn_renamed
from pucl.encoders.embedding import embed
from pucl.encoders.frozen.embedding import CPU, embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.inputs import Encoder
from pucl.heads.calibration import Calibrated
from pucl.models.diagnosis import ModelDiagnosis, diagnose_model
from pucl.models.evidence import Evidence
from pucl.models.record import FitRecord
from pucl.models.schema import Schema

if TYPE_CHECKING:
    from pucl.models.scorer import Scorer


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
        front: a frozen encoder, from rows to the vectors that encoder and head take; None where they take the rows.
        encoder_options: what the network of the encoder was made with.
        device: where encoders compute; rows, embeddings and scores are on the CPU.
    """

    schema: Schema
    encoder: Encoder
    encoder_name: str | None
    head: Calibrated
    record: FitRecord
    evidence: Evidence | None = None
    front: FrozenEncoder | None = None
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    device: Device = CPU

    @property
    def prior(self) -> float:
        """π, the share of positives among the unlabelled rows it was trained on."""
        return self.record.prior.value

    @property
    def about(self) -> dict[str, Any]:
        """The record as a dictionary, under its old name."""
        warn_renamed("pucl.Model", "about", "record")
        return self.record.to_dict()

    def diagnose(self) -> ModelDiagnosis:
        """What the fit found of embedding and labels, and what theory says of them, as ``pucl diagnose`` shows it.

        `pucl.diagnose` does so for embeddings and labels of one's own. No rows are needed: the evidence has enough.
        """
        return diagnose_model(self.record, self.evidence)

    def to(self, device: Device) -> "Model":
        """The same model, whose encoders compute on a device; the encoder itself moves there."""
        if any(True for _ in self.encoder.parameters()):
            self.encoder.to(device)
        return replace(self, device=device)

    def scorer(self, **options: Any) -> "Scorer":
        """A function from a batch of rows to their scores, which holds the model and can be sent to other processes.

        Args:
            **options: the other arguments of `pucl.scorer`.
        """
        from pucl.models.scorer import scorer

        return scorer(self, **options)

    def embed(self, rows: Tensor) -> Tensor:
        """Embeddings (n, k), of length 1, of rows as `schema.encode` gives them."""
        return self._embedded(self._taken(rows))

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """Calibrated logits (n,) of rows as `schema.encode` gives them: positive above 0."""
        taken = self._taken(rows)
        logits: Tensor = self.head(taken if self.head.takes == "rows" else self._embedded(taken))
        return logits

    def _taken(self, rows: Tensor) -> Tensor:
        """What encoder and head take of the rows: vectors by the frozen encoder where there is one."""
        return rows if self.front is None or not len(rows) else embed_frozen(self.front, rows, device=self.device)

    def _embedded(self, taken: Tensor) -> Tensor:
        return embed(self.encoder, taken if self.front is not None else self.schema.features(taken))


class RowsToProbability(nn.Module):
    """All steps in one: rows as `schema.encode` gives them → the probability of being positive, (n,)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.head, self.encoder, self.front = model.head, model.encoder, model.front
        self.expand = model.schema.expand

    def forward(self, rows: Tensor) -> Tensor:
        """Probabilities (n,) of rows, in float32."""
        if self.front is not None:
            rows = self.front(rows)
        if self.head.takes == "embedding":
            features = rows if self.expand is None else self.expand(rows)
            rows = F.normalize(self.encoder(features), dim=1)
        logits: Tensor = self.head(rows)
        return torch.sigmoid(logits).to(torch.float32)
