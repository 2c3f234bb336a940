"""Fit a cell, so that it can be graded: a readout on an encoder, or a baseline. Methods see `ObservedRows` only."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.bench.grid.cells import (
    BY_BASELINE,
    KNN,
    SUPERVISED,
    TEACHER,
    TFIDF,
    TRUTH,
    TUNING,
    Baseline,
    Readout,
    is_estimated,
)
from pucl.bench.grid.decode import from_json
from pucl.bench.grid.identity import canonical
from pucl.bench.grid.readouts import MATCH, METHOD, OTHERS
from pucl.bench.grid.recipes import VIEWS, options_of, view_of
from pucl.bench.grid.tune_options import tune
from pucl.bench.run.exam import Exam, ObservedRows
from pucl.bench.run.pretrained import embed_rows
from pucl.bench.run.tfidf import fit_tfidf
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder, as_rows
from pucl.encoders.plain import raw_encoder
from pucl.errors import bad_argument
from pucl.heads import fit_head
from pucl.heads.tuned import FineTuned
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.ranking.prior import estimate_prior
from pucl.registry import get

BATCH = 1024  # rows scored at a time


class BatchScorer(nn.Module):
    """Logits (n,) of a batch of float rows on the device."""

    def __init__(self, encoder: nn.Module, head: Any, *, normalise: bool) -> None:
        super().__init__()
        self.encoder, self.head, self.normalise = encoder, head, normalise

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,)."""
        z = self.encoder(x)
        logits: Tensor = self.head(F.normalize(z.float(), dim=1) if self.normalise else z)
        return logits


class RowScorer:
    """Raw rows → logits (n,), in batches.

    Attributes:
        scorer: the same for batches that are on the device already.
        tuned: the model, where encoder and layer were fine-tuned.
    """

    tuned: FineTuned | None = None

    def __init__(self, encoder: nn.Module, head: Any, device: str, *, normalise: bool) -> None:
        self.scorer, self.device = BatchScorer(encoder, head, normalise=normalise).eval(), device

    @classmethod
    def of_tuned(cls, model: FineTuned, device: str) -> "RowScorer":
        """Of a fine-tuned model."""
        scorer = cls(model.encoder, model.score, device, normalise=False)
        scorer.tuned = model
        return scorer

    @torch.no_grad()
    def __call__(self, x: Any) -> Tensor:
        """Logits (n,) of raw rows."""
        of = self.scorer
        logits: Tensor = of.head(embed_rows(of.encoder, x, batch_size=BATCH, normalise=of.normalise).to(self.device))
        return logits


@dataclass(frozen=True)
class FittedCell:
    """A fitted cell, ready to be graded.

    Attributes:
        score: raw rows → logits (n,), positive above 0; None for the kNN probe.
        pseudo: the pseudo-labels of the observed rows, where there are any.
        given_prior: π, if it was given.
    """

    score: Callable[[Any], Tensor] | None
    pseudo: PseudoLabels | None = None
    given_prior: float | None = None


class Embedded:
    """The observed rows embedded once by an encoder, and pseudo-labels that several readouts share.

    Attributes:
        z: the embeddings, (n, k).
        collapsed: whether all rows have the same embedding, so that no labeller can separate them.
        seen_by_encoder: the labelled rows whose labels the encoder saw, where some were withheld from it.
    """

    def __init__(self, encoder: Encoder, observed: ObservedRows, device: str, withheld: float = 0) -> None:
        self.encoder, self.observed, self.device = encoder, observed, device
        self.seen_by_encoder: NDArray[Any] | None = observed.seen_by_encoder(withheld) if withheld else None
        self.z = embed_rows(encoder, observed.x).to(device)
        self.collapsed = bool((self.z == self.z[0]).all())
        self._labels: dict[str, PseudoLabels] = {}

    def pseudo(self, readout: Readout, prior: float | None, teacher: RowScorer | None = None) -> PseudoLabels:
        """The pseudo-labels of the rows by the labeller of a readout, computed once."""
        if readout.labeller is None or readout.labeller == TEACHER:
            logits = _needed(teacher)(self.observed.x)
            labelled = torch.as_tensor(self.observed.s, device=logits.device)
            return PseudoLabels.from_probability(torch.sigmoid(logits), labelled)
        key = canonical([readout.labeller, readout.labeller_options, prior])
        if key not in self._labels:
            options = from_json(readout.labeller_options)
            if OTHERS in options:
                options[OTHERS] = [raw_embeddings(self.observed).to(self.device)]
            self._labels[key] = pseudo_label(
                self.z, self.observed.s, method=readout.labeller, prior=prior, seen_by_encoder=self.seen_by_encoder,
                seed=self.observed.seed, **options,
            )  # fmt: skip
        return self._labels[key]

    def sample(self) -> tuple[ObservedRows, Tensor]:
        """The rows that stand for P and U, and their embeddings: without labelled ones whose label the encoder saw."""
        if self.seen_by_encoder is None:
            return self.observed, self.z
        rows = ~self.seen_by_encoder
        return self.observed.only(rows), self.z[torch.as_tensor(rows, device=self.z.device)]

    def prior(self, given: str | None, exam: Exam) -> float | None:
        """π as a readout is given it: nothing, the true one, or an estimate from embeddings and s."""
        if not is_estimated(given):
            return exam.prior(given)
        observed, z = self.sample()
        return estimate_prior(z, observed.s, method=given, seed=observed.seed).value


def fit_readout(readout: Readout, rows: Embedded, exam: Exam, teacher: RowScorer | None = None) -> FittedCell:
    """A readout, fitted; `teacher` is the fitted pipeline it learns from, if it has one.

    On a collapsed encoder all rows look the same, so every row is called positive, with a warning.
    """
    if readout.head == KNN:
        return FittedCell(None)
    if rows.collapsed and readout.labeller not in (None, TRUTH, TEACHER):
        warnings.warn("the encoder has collapsed: all embeddings are equal, every row is called positive", stacklevel=2)
        return FittedCell(lambda x: torch.ones(len(x)))
    if readout.labeller == TRUTH:
        return _fit_reference(readout, rows, exam)
    prior = rows.prior(readout.prior, exam)
    if readout.labeller is None:
        observed, z = rows.sample()
        labelled = torch.as_tensor(observed.s, device=z.device)
        nothing = PseudoLabels.from_probability(labelled.float(), labelled)  # of which the head takes no label
        return FittedCell(_fit_head(readout, rows, observed, z, nothing, prior), given_prior=prior)
    pseudo = rows.pseudo(readout, prior, teacher)
    score = _fit_head(readout, rows, rows.observed, rows.z, pseudo, prior, teacher)
    return FittedCell(score, pseudo, prior)


def fit_method(cell: Baseline, observed: ObservedRows, exam: Exam, device: str) -> FittedCell:
    """A baseline, fitted; an estimated prior comes from the raw rows. "supervised" is given the truth."""
    from pucl.baselines import fit_baseline

    labels = observed.s
    if cell.method == SUPERVISED:
        known, labels = exam.training_truth()
        observed = observed.only(known)
    if cell.encoder == TFIDF:
        return FittedCell(fit_tfidf(observed.x, labels))
    if is_estimated(cell.prior):
        estimate = estimate_prior(raw_embeddings(observed), observed.s, method=cell.prior, seed=observed.seed)
        prior: float | None = estimate.value
    else:
        prior = exam.with_prior_error(cell.prior_error).prior(cell.prior)
    scorer = fit_baseline(
        cell.registered, observed.x, labels, prior=prior, encoder=cell.encoder,
        setting="single-set" if cell.place.setting == "single-set" else "case-control",
        settings=from_json(cell.settings), seed=observed.seed, device=device,
    )  # fmt: skip

    @torch.no_grad()
    def score(x: Any) -> Tensor:
        return torch.cat([scorer(rows.to(device)) for rows in torch.split(as_rows(x, owner="pucl bench"), BATCH)])

    return FittedCell(score, given_prior=prior)


def raw_embeddings(observed: ObservedRows) -> Tensor:
    """The rows themselves, as an encoder that learns nothing embeds them."""
    rows = as_rows(observed.x, owner="pucl bench")
    return embed(raw_encoder(rows), rows)


def _fit_head(
    readout: Readout, rows: Embedded, observed: ObservedRows, z: Tensor, pseudo: PseudoLabels, prior: float | None,
    teacher: RowScorer | None = None,
) -> RowScorer:  # fmt: skip
    """The head of a readout on rows, embeddings and pseudo-labels that belong together."""
    if readout.head in TUNING:
        return _fine_tuned(readout, rows, observed, pseudo, teacher)
    if readout.head == BY_BASELINE:
        return _by_baseline(readout, rows, observed, z, prior)
    takes = inspect.signature(get("heads", readout.head).function).parameters
    given = {"seed": observed.seed, "prior": prior}
    more = {name: value for name, value in given.items() if name in takes and value is not None}
    head = fit_head(z, observed.s, pseudo, method=readout.head, **from_json(readout.head_options), **more)
    return RowScorer(rows.encoder, head, rows.device, normalise=True)


def _by_baseline(readout: Readout, rows: Embedded, observed: ObservedRows, z: Tensor, prior: float | None) -> RowScorer:
    """A baseline fitted to embeddings in place of raw rows: a linear classifier with the loss of the method."""
    from pucl.baselines import fit_baseline

    settings = from_json(readout.head_options)
    scorer = fit_baseline(
        settings.pop(METHOD), z.cpu(), observed.s, prior=prior, encoder="raw", settings=settings, seed=observed.seed,
        device=rows.device,
    )  # fmt: skip
    return RowScorer(rows.encoder, scorer, rows.device, normalise=True)


def _fine_tuned(
    readout: Readout, rows: Embedded, observed: ObservedRows, pseudo: PseudoLabels, teacher: RowScorer | None
) -> RowScorer:
    options: dict[str, Any] = from_json(readout.head_options)
    for view in VIEWS:
        if view in options:
            options[view] = view_of(options[view], options.pop(options_of(view)))
    scoring_teacher = _needed(teacher).scorer if options.pop(MATCH, False) else None
    options |= {"teacher": scoring_teacher, "seed": observed.seed}
    model = tune(readout.head, observed.x, observed.s, pseudo, rows.encoder, options, device=rows.device)
    return RowScorer.of_tuned(model, rows.device)


def _fit_reference(readout: Readout, rows: Embedded, exam: Exam) -> FittedCell:
    """A head on the true labels of the observed rows, as far as they are known: a ceiling, not a method."""
    known, truth = exam.training_truth()
    observed, z = rows.observed.only(known), rows.z[torch.as_tensor(known, device=rows.z.device)]
    labels = torch.as_tensor(truth, device=z.device)
    share = float(truth[~observed.s].mean())
    pseudo = PseudoLabels(labels, labels.float(), torch.ones_like(labels, dtype=torch.float32), share)
    return FittedCell(_fit_head(readout, rows, observed, z, pseudo, None))


def _needed(teacher: RowScorer | None) -> RowScorer:
    if teacher is None:
        raise bad_argument("pucl bench", "teacher", "given where a readout learns from one", None)
    return teacher
