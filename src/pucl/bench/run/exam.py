"""Exam: what a method may see, and the truth, which is used only after everything is fitted.

`ObservedRows` goes to whatever is fitted and holds no truth. `Exam` stays with the benchmark. Only `Exam.grade`,
`Exam.probe`, `Exam.knn` and `Exam.shown` read the labels of the test rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.bench.grid.cells import KNN_OPTIONS, PRIOR_ERROR
from pucl.bench.grid.place import Place
from pucl.bench.run.pretrained import embed_rows
from pucl.bench.run.probes import knn_accuracy, linear_probe_accuracy
from pucl.data import Dataset, load
from pucl.data.observe import PUData, observe
from pucl.encoders.inputs import Encoder
from pucl.errors import RunError, bad_argument
from pucl.metrics import evaluate
from pucl.pseudo_labels import PseudoLabels
from pucl.seeds import seed_of

Metrics = dict[str, float]


class SkipError(Exception):
    """A cell that cannot be run on this machine; the message says why. It is no failure."""


@dataclass(frozen=True)
class ObservedRows:
    """What a method may see: rows x, labelled positives first, their PU labels s, and a seed."""

    x: NDArray[Any]
    s: NDArray[np.bool_]
    seed: int

    def seen_by_encoder(self, withheld: float) -> NDArray[np.bool_]:
        """The labelled rows whose labels an encoder sees where a share of them is withheld: at least one is."""
        seen, labelled = self.s.copy(), np.flatnonzero(self.s)
        if withheld:
            order = np.random.default_rng(seed_of(self.seed, "withheld", 0)).permutation(labelled)
            seen[order[: max(1, round(withheld * len(order)))]] = False
        return seen

    def only(self, rows: NDArray[np.bool_]) -> "ObservedRows":
        """Some of the rows."""
        return self if rows.all() else replace(self, x=self.x[rows], s=self.s[rows])


def pose(place: Place) -> tuple[ObservedRows, "Exam"]:
    """What methods see at a place, and its exam.

    Who is labelled follows from the place alone: all stages of all methods see the same rows.
    """
    data = load(place.task, seed=place.seed)
    seen = observe(data, place.n_labelled, **place.options)
    return ObservedRows(seen.x, seen.s, place.seed), Exam(data, seen)


class Exam:
    """The truth of a task; what it tells of π may be wrong by a factor of 1 + `prior_error`."""

    def __init__(self, data: Dataset, seen: PUData, prior_error: float = 0.0) -> None:
        self._data, self._seen, self._error = data, seen, prior_error

    def with_prior_error(self, error: float) -> "Exam":
        """The same, telling (1 + ε) times the true π."""
        return Exam(self._data, self._seen, error)

    @property
    def test_rows(self) -> NDArray[Any]:
        """The rows that methods are graded on, without their labels."""
        return self._data.x_test

    def prior(self, given: str | None) -> float | None:
        """π as methods that estimate none are given it: nothing, or "oracle", the true one but for an error."""
        if given is None:
            return None
        if self._seen.prior is None:
            raise SkipError(f"the true prior inside U of {self._data.name} is unknown")
        return given_prior(self._seen.prior, self._error)

    def training_truth(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of the observed rows have a known truth, and the truth of those; for references, never for methods."""
        rows = self._seen.sample.rows
        return np.arange(len(self._seen.s)) < len(rows), self._data.y_train[rows]

    def shown(self, n: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Some test rows and their truth, for pictures; the same ones for every seed and method."""
        order = np.random.default_rng(0).permutation(len(self._data.x_test))[:n]
        return self._data.x_test[order], self._data.y_test[order]

    def classes(self, objective: str) -> NDArray[np.bool_]:
        """The truth of all observed rows, for an objective that learns from it: a reference, never a method."""
        known, truth = self.training_truth()
        if not known.all():
            raise SkipError(f"{objective} needs the class of every row; {self._data.name} has rows of unknown class")
        return truth

    def right(self, pseudo: PseudoLabels) -> float:
        """How many of the unlabelled rows with a known truth have the right pseudo-label, in per cent."""
        known, truth = self.training_truth()
        hidden = ~self._seen.s[known]
        labels = pseudo.labels.cpu().numpy()[known]
        return _per_cent(float((labels == truth)[hidden].mean()))

    def grade(self, logits: Tensor) -> Metrics:
        """Accuracy, F1 and AUC of the logits of the test rows, in per cent."""
        logits = logits.detach().float().cpu()
        if not bool(torch.isfinite(logits).all()):
            raise RunError("bench: the logits of the test rows are not finite: training has diverged")
        scores = evaluate(self._data.y_test, logits.numpy())
        return {name: _per_cent(getattr(scores, name)) for name in ("accuracy", "f1", "auc")}

    def probe(self, encoder: Encoder, device: str = "cpu") -> Metrics:
        """What an encoder holds: kNN and a linear classifier on the true labels of all training rows, in per cent."""
        z, z_test = self._embedded(encoder, device)
        linear = linear_probe_accuracy(z, self._data.y_train, z_test, self._data.y_test)
        return {"knn": self._near(z, z_test), "linear_probe": _per_cent(linear)}

    def knn(self, encoder: Encoder, device: str = "cpu") -> float:
        """The accuracy of kNN alone, as in `probe`: to be looked at while an encoder is trained, never to choose."""
        return self._near(*self._embedded(encoder, device))

    def _embedded(self, encoder: Encoder, device: str) -> tuple[Tensor, Tensor]:
        there = torch.device(device)
        return embed_rows(encoder, self._data.x_train).to(there), embed_rows(encoder, self._data.x_test).to(there)

    def _near(self, z: Tensor, z_test: Tensor) -> float:
        k, temperature = min(int(KNN_OPTIONS["k"]), len(z)), KNN_OPTIONS["temperature"]
        return _per_cent(knn_accuracy(z, self._data.y_train, z_test, self._data.y_test, k=k, temperature=temperature))


def given_prior(prior: float, error: float) -> float:
    """(1 + ε) π, or an error where that is no share."""
    given = (1 + error) * prior
    if not 0 < given < 1:
        allowed = f"one that leaves the prior strictly between 0 and 1: the true one is {prior:.4g}"
        raise bad_argument("pucl bench", PRIOR_ERROR, allowed, error)
    return given


def _per_cent(share: float) -> float:
    return round(100 * share, 3)
