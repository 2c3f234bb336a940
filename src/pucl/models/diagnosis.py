"""A model looked at through the paper's theory: what the fit found of its embedding and labels, and what follows."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from pucl.models.evidence import Evidence
from pucl.models.record import FitRecord
from pucl.selection.limits import Geometry, Limits, geometry_of, limits


@dataclass(frozen=True)
class ModelDiagnosis:
    """What `pucl diagnose` shows.

    Attributes:
        findings: of `pucl.diagnose` during the fit, on the embedding and on how the positives were labelled.
        limits: what theory says of the data and the embedding.
    """

    findings: tuple[str, ...]
    limits: Limits

    def __str__(self) -> str:
        checked = ["Found during the fit:", *(f"  - {each}" for each in self.findings)] if self.findings else []
        return "\n".join([*checked, "What theory says:", *(f"  - {each}" for each in self.limits.messages)])

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"findings": list(self.findings), **asdict(self.limits), "messages": list(self.limits.messages)}


def diagnose_model(record: FitRecord, evidence: Evidence | None) -> ModelDiagnosis:
    """The diagnosis from what a model folder holds, without the rows.

    The embedding is that of the rows kept for the report: up to 5,000, all labelled positives if they fit, and
    unlabelled rows at random. Negative is what the model calls so.
    """
    trained = [epoch.alignment for epoch in record.history if epoch.alignment is not None]
    geometry = Geometry(alignment=trained[-1] if trained else None)
    if evidence is not None and evidence.embedding is not None and len(evidence.points):
        labelled = torch.from_numpy(evidence.points.labelled)
        negative = ~labelled & (torch.from_numpy(evidence.points.probability) < 0.5)
        z = torch.from_numpy(evidence.embedding).float()
        geometry = geometry_of(z, labelled, negative, alignment=geometry.alignment)
    rows = record.all_rows
    return ModelDiagnosis(
        record.diagnostics, limits(rows.labelled, rows.unlabelled, prior=record.prior, geometry=geometry)
    )
