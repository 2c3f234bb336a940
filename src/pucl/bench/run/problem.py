"""Problem and exam: what a method may see, and the truth, which is opened when everything is fitted.

`Problem` goes to whatever is fitted and holds no truth. `Exam` stays with the harness. The labels of the test rows are
read in one place only, `Exam.grade`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.bench.grid.cells import KNN_OPTIONS, ORACLE, Config
from pucl.bench.run.probes import knn_accuracy, linear_probe_accuracy
from pucl.data import Dataset, load
from pucl.data.observe import PUData, observe
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.errors import RunError
from pucl.metrics import evaluate
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.prior import estimate_prior
from pucl.seeds import seed_of


class SkipError(Exception):
    """A cell that cannot be run here; the message says why. Not an error of anybody."""


@dataclass(frozen=True)
class Problem:
    """What a method may see: rows x, labelled positives first, their PU labels s, and a seed."""

    x: NDArray[Any]
    s: NDArray[np.bool_]
    seed: int

    def told(self, withheld: float) -> NDArray[np.bool_]:
        """The labelled rows that an encoder is told of where a share of them is withheld from it: at least one is."""
        told, labelled = self.s.copy(), np.flatnonzero(self.s)
        if withheld:
            order = np.random.default_rng(seed_of(self.seed, "withheld", 0)).permutation(labelled)
            told[order[: max(1, round(withheld * len(order)))]] = False
        return told

    def only(self, rows: NDArray[np.bool_]) -> "Problem":
        """The problem of some of its rows."""
        return self if rows.all() else replace(self, x=self.x[rows], s=self.s[rows])


@dataclass(frozen=True)
class Fitted:
    """What is graded.

    Attributes:
        score: raw rows → logits (n,), positive above 0; None for the kNN probe.
        pseudo: the pseudo-labels of the problem's rows, where there are any.
        told: π, if it was told.
    """

    score: Callable[[Any], Tensor] | None
    pseudo: PseudoLabels | None = None
    told: float | None = None


def pose(config: Mapping[str, Any]) -> tuple[Problem, "Exam"]:
    """The problem of a cell and its exam.

    Who is labelled follows from task, setting, n_labelled and seed alone: all stages of all methods see the same rows.
    """
    data = load(config["task"], seed=config["seed"])
    seen = observe(data, config["n_labelled"], seed=config["seed"], setting=config["setting"])
    return Problem(seen.x, seen.s, config["seed"]), Exam(data, seen)


class Exam:
    """The truth of a task."""

    def __init__(self, data: Dataset, seen: PUData) -> None:
        self._data, self._seen = data, seen
        self._probes: dict[str, float] = {}

    def prior(self, told: str | None, seen: Callable[[], tuple[Tensor, Any]], seed: int) -> float | None:
        """π as a method is told it: nothing, the true one, or an estimate from embeddings and s, without truth."""
        if told is None:
            return None
        if told != ORACLE:
            return estimate_prior(*seen(), method=told, seed=seed).value
        if self._seen.prior is None:
            raise SkipError(f"nobody knows the true prior inside U of {self._data.name}")
        return self._seen.prior

    def training_truth(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of the problem's rows have a known truth, and the truth of those; for references, never for methods."""
        rows = self._seen.sample.rows
        return np.arange(len(self._seen.s)) < len(rows), self._data.y_train[rows]

    def right(self, pseudo: PseudoLabels) -> float:
        """How many of the unlabelled rows with a known truth have the right pseudo-label, in per cent."""
        known, truth = self.training_truth()
        hidden = ~self._seen.s[known]
        found = pseudo.labels.cpu().numpy()[known]
        return _per_cent(float((found == truth)[hidden].mean()))

    def grade(self, fitted: Fitted, encoder: Encoder | None = None, device: str = "cpu") -> Config:
        """All that is measured of something fitted, in per cent; the one place that reads labels of test rows.

        With an encoder also what it holds: kNN and a linear classifier on the true labels of all training rows.
        """
        data, found = self._data, Config()
        if encoder is not None and not self._probes:
            there = torch.device(device)
            z, z_test = (embed(encoder, x).to(there) for x in (data.x_train, data.x_test))
            k, temperature = min(KNN_OPTIONS["k"], len(z)), KNN_OPTIONS["temperature"]
            near = knn_accuracy(z, data.y_train, z_test, data.y_test, k=k, temperature=temperature)
            self._probes = {
                "knn": _per_cent(near),
                "linear_probe": _per_cent(linear_probe_accuracy(z, data.y_train, z_test, data.y_test)),
            }
        if fitted.score is None:
            found["accuracy"] = self._probes["knn"]
        else:
            logits = fitted.score(data.x_test).detach().float().cpu()
            if not bool(torch.isfinite(logits).all()):
                raise RunError("bench: the logits of the test rows are not finite: training has diverged")
            scores = evaluate(data.y_test, logits.numpy())
            found |= {name: _per_cent(getattr(scores, name)) for name in ("accuracy", "f1", "auc")}
        return found | self._probes


def _per_cent(share: float) -> float:
    return round(100 * share, 3)
