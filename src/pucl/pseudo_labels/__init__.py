"""Pseudo-labels: from embeddings and PU labels to a label, a probability and a reliability for every row."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pucl.encoders.inputs import check_finite
from pucl.errors import Described, bad_argument, check_count, check_share
from pucl.labels import check_labels
from pucl.ranking.cvir import cut
from pucl.registry import get

OWNER = "pucl.pseudo_label"
AUTO = "stacked"  # what method="auto" means; LOG.md has the study behind it


@dataclass(frozen=True)
class PseudoLabels:
    """What a labeller says of every row.

    Attributes:
        labels: pseudo-label, True for positive, (n,); labelled positives are always positive.
        probability: of being positive, within [0, 1], (n,); a label is positive where it is above one half.
        reliability: how far to trust the pseudo-label, within [0, 1], (n,); labelled positives have 1.
        prior: the share of positives among the unlabelled rows it used or found.
    """

    labels: Tensor
    probability: Tensor
    reliability: Tensor
    prior: float

    @classmethod
    def from_probability(cls, probability: Tensor, labelled: Tensor, *, prior: float | None = None) -> "PseudoLabels":
        """Labels at one half, reliability as the distance from it; labelled rows are certain."""
        certain = torch.where(labelled, torch.ones_like(probability), probability)
        labels = certain > 0.5
        share = float(labels[~labelled].float().mean()) if prior is None else prior
        return cls(labels, certain, (2 * certain - 1).abs(), share)

    def only(self, rows: Tensor) -> "PseudoLabels":
        """Those of some rows, by a mask or by numbers; π̂ stays that of all."""
        return PseudoLabels(self.labels[rows], self.probability[rows], self.reliability[rows], self.prior)

    def spread(self, among: Tensor) -> "PseudoLabels":
        """For more rows: these are the rows `among` (m,) marks, and all others are labelled positives."""
        labels = torch.ones_like(among)
        probability, reliability = (values.new_ones(len(among)) for values in (self.probability, self.reliability))
        labels[among], probability[among], reliability[among] = self.labels, self.probability, self.reliability
        return PseudoLabels(labels, probability, reliability, self.prior)

    @classmethod
    def from_scores(cls, score: Tensor, labelled: Tensor, *, prior: float) -> "PseudoLabels":
        """From scores that rank positives high, cut so that a share π of the unlabelled rows is positive.

            p_i = σ(f_i − q)

        where f is the score and q the cut.
        """
        return cls.from_probability(torch.sigmoid(score - cut(score[~labelled], prior)), labelled, prior=prior)


def pseudo_label(
    z: Any,
    s: Any,
    *,
    method: str = "auto",
    prior: float | None = None,
    told: Any | None = None,
    beside: Sequence[Any] | None = None,
    seed: int = 0,
    **options: Any,
) -> PseudoLabels:
    """Pseudo-label every row of an embedding.

    A strong encoder that is told who is labelled can learn these rows by heart and draw them apart from the positives
    inside U; labels and π̂ then come out too low. Tell the encoder of some labelled rows only, and name them in `told`:
    they are positive, but the others alone stand for the positives.

    Args:
        z: embeddings (n, k), finite.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        method: a registered pseudo-labeller, or ``"auto"``.
        prior: π, the share of positives among the unlabelled rows; estimated or not needed when not given.
        told: the labelled rows that the encoder was told of, as a mask (n,), where it was not told of all of them.
        beside: other embeddings of the same rows, such as the rows themselves (n, k'), for a method that can weigh
            several against each other: ``"stacked"``, the default.
        seed: of whatever is random in the method.
        options: what else the method takes.
    """
    rows = _check_embedding("z", z)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=OWNER)).to(rows.device)
    if prior is not None:
        check_share(OWNER, "prior", prior)
    check_count(OWNER, "seed", seed, low=0)
    name = AUTO if method == "auto" else method
    function = get("pseudo-labellers", name).function
    others = [] if beside is None else _check_beside(beside, rows)
    if others and "beside" not in inspect.signature(function).parameters:
        raise bad_argument(OWNER, "beside", f"given with a method that takes it, such as {AUTO!r}", name)
    asked = None if told is None else ~_check_told(told, labelled)
    if asked is not None:
        rows, labelled, others = rows[asked], labelled[asked], [one[asked] for one in others]
    more = {"beside": others} if others else {}
    found: PseudoLabels = function(rows, labelled, prior=prior, seed=seed, **more, **options)
    return found if asked is None else found.spread(asked)


def _check_embedding(argument: str, given: Any) -> Tensor:
    try:
        rows = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        got = Described(f"a {type(given).__name__} that holds no such matrix")
        raise bad_argument(OWNER, argument, "a floating-point matrix (n, k)", got) from None
    if rows.ndim != 2 or not rows.is_floating_point():
        got = Described(f"{rows.dtype} of shape {tuple(rows.shape)}")
        raise bad_argument(OWNER, argument, "a floating-point matrix (n, k)", got)
    if rows.dtype in (torch.bfloat16, torch.float16):
        rows = rows.float()
    check_finite(OWNER, argument, rows)
    if (rows == rows[:1]).all():
        got = Described("all rows equal" if len(rows) else "no rows")
        raise bad_argument(OWNER, argument, "at least two different rows", got)
    return rows


def _check_beside(beside: Any, z: Tensor) -> list[Tensor]:
    """The other embeddings, of as many rows as z and on its device."""
    if not isinstance(beside, list | tuple):
        raise bad_argument(OWNER, "beside", "a list of matrices", Described(type(beside).__name__))
    others = [_check_embedding(f"beside[{number}]", one).to(z.device) for number, one in enumerate(beside)]
    for number, one in enumerate(others):
        if len(one) != len(z):
            allowed = f"a matrix of {len(z)} rows, as many as z has"
            raise bad_argument(OWNER, f"beside[{number}]", allowed, Described(f"{len(one)} rows"))
    return others


def _check_told(told: Any, labelled: Tensor) -> Tensor:
    rows = torch.as_tensor(told)
    if rows.dtype != torch.bool or rows.shape != labelled.shape:
        got = Described(f"{rows.dtype} of shape {tuple(rows.shape)}")
        raise bad_argument(OWNER, "told", f"a mask of length {len(labelled)}, one per row of z", got)
    rows = rows.to(labelled.device)
    if bool((rows & ~labelled).any()) or not bool((labelled & ~rows).any()):
        got = Described(f"{int((rows & ~labelled).sum())} unlabelled and {int((rows & labelled).sum())} labelled rows")
        raise bad_argument(OWNER, "told", f"some of the {int(labelled.sum())} labelled rows, not all of them", got)
    return rows
