"""k nearest neighbours in cosine similarity, as a head with a prior-corrected logit."""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from pucl.deprecation import renamed_arguments
from pucl.errors import Described, bad_argument, check_count, check_positive, check_share
from pucl.heads.stored import HeadParts, StoredHead
from pucl.numerics.nearest import block_size, most_similar
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.thresholds import inside_unit_interval
from pucl.ranking.whitening import Whitening, fit_whitening
from pucl.registry import register

OWNER = "head 'knn'"
REFERENCE = ("rows", "labels", "weight", "share", "prior")


class NearestNeighbours(StoredHead):
    """The reference rows with their votes; see `knn` for what it computes.

    Attributes:
        mean, axes: of the whitening; None where rows are not centred.
        rows: reference embeddings (n, k), whitened and L2-normalised.
        labels: their pseudo-labels (n,), as 0 and 1.
        weight: their reliability (n,).
        share: c, the share of positive votes in the whole reference.
        prior: π.
    """

    kind = "knn"
    mean: Tensor | None
    axes: Tensor | None
    rows: Tensor
    labels: Tensor
    weight: Tensor
    share: Tensor
    prior: Tensor

    def __init__(self, view: Whitening, reference: Mapping[str, Tensor], *, k: int, temperature: float) -> None:
        super().__init__()
        self.register_buffer("mean", view.mean)
        self.register_buffer("axes", view.axes)
        for name in REFERENCE:
            self.register_buffer(name, reference[name])
        self.k, self.temperature = min(k, len(self.rows)), temperature

    @torch.no_grad()
    def forward(self, z: Tensor) -> Tensor:
        """Logits (n,) of embeddings (n, k), a batch of rows at a time."""
        whitened = Whitening(self.mean, self.axes)(z.to(self.rows.dtype))
        if torch.compiler.is_compiling():  # a graph for any number of rows has no loop over them
            votes = self._positive_votes(whitened)
        else:
            pieces = torch.split(whitened, block_size(len(self.rows)))
            votes = torch.cat([self._positive_votes(piece) for piece in pieces])
        smooth = (self.k * votes + self.share) / (self.k + 1)
        return torch.logit(smooth) - torch.logit(self.share) + torch.logit(self.prior)

    def options(self) -> dict[str, float]:
        """The number of neighbours k and the temperature τ."""
        return {"k": self.k, "nearness": self.temperature}  # calibration has a temperature, too

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored head."""
        view = Whitening(parts.tensors.get("mean"), parts.tensors.get("axes"))
        options = parts.options
        return cls(view, parts.tensors, k=int(options["k"]), temperature=options["nearness"])

    def _positive_votes(self, z: Tensor) -> Tensor:
        """v, the weighted share of positives among the nearest rows, (n,)."""
        near, who = most_similar(z, self.rows, self.k)
        vote = ((near - near[:, :1]) / self.temperature).exp() * self.weight[who]
        total = vote.sum(dim=1)
        # Where all neighbours have weight 0, the share of the whole reference counts.
        return torch.where(total > 0, (vote * self.labels[who]).sum(dim=1) / total.clamp(min=1e-30), self.share)


@register("heads", reference="Wu et al. 2018 (weighted kNN)")
@renamed_arguments(OWNER, even="whitening")
def knn(
    z: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    *,
    k: int = 200,
    temperature: float = 0.1,
    centred: bool = False,
    whitening: float = 0.0,
    prior: float | None = None,
) -> NearestNeighbours:
    """The k nearest rows vote with their pseudo-labels, weighted by similarity and reliability.

        v(z) = Σ_j ỹ_j w_j / Σ_j w_j,    w_j = r_j exp(z · z_j / τ)

        f(z) = logit((k v + c) / (k + 1)) − logit(c) + logit(π)

    where j runs over the k rows of largest cosine similarity, ỹ is the pseudo-label and r its reliability. c is the
    share Σ r ỹ / Σ r of positive votes in the whole reference: the labelled rows are extra positives and reliability
    differs between the classes, so c is not π and is taken out for it. One vote of the whole reference keeps logits
    finite where all neighbours agree, and half a row of the other class where all rows do.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels.
        k: how many neighbours; all rows when there are fewer.
        temperature: τ.
        centred: take cosines after the mean row is subtracted.
        whitening: how far the principal axes are first scaled to the same variance, from 0 (not at all) to 1; for
            `centred` only.
        prior: π; that of the pseudo-labels when not given, but at least half an unlabelled row from 0 and from 1.
    """
    check_count(OWNER, "k", k)
    check_positive(OWNER, "temperature", temperature)
    check_share(OWNER, "whitening", whitening, closed=True)
    share = (
        _inside(pseudo.prior, int(pseudo.unlabelled(labelled).sum()))
        if prior is None
        else check_share(OWNER, "prior", prior)
    )
    if not (pseudo.reliability > 0).any():
        raise bad_argument(OWNER, "pseudo", "labels with rows whose reliability is above 0", Described("no such row"))
    view = fit_whitening(z, centred=centred, whitening=whitening)
    labels, weight, half = pseudo.labels.to(z), pseudo.reliability.to(z), 0.5 / len(z)
    reference = {
        "rows": view(z),
        "labels": labels,
        "weight": weight,
        "share": ((labels @ weight) / weight.sum()).clamp(half, 1 - half),
        "prior": torch.tensor(share, dtype=z.dtype, device=z.device),
    }
    return NearestNeighbours(view, reference, k=k, temperature=temperature)


def _inside(share: float, n: int) -> float:
    """π̂ kept inside (0, 1): labellers may find no positive, or no negative, among n rows."""
    return inside_unit_interval(check_share(OWNER, "prior of the pseudo-labels", share, closed=True), max(n, 1))
