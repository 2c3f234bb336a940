"""From a cell to something that can be graded: a top on an encoder, or a baseline. Methods see a `Problem` only."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.bench.grid.cells import (
    FINE_TUNE,
    KNN,
    MATCH,
    OTHERS,
    SUPERVISED,
    TEACHER,
    TRUTH,
    canonical,
    current_options,
    current_settings,
    registered,
)
from pucl.bench.grid.options import from_json
from pucl.bench.grid.recipes import VIEW, VIEW_OPTIONS, view_of
from pucl.bench.grid.tune_options import tune
from pucl.bench.run.problem import Exam, Fitted, Problem
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder, as_rows
from pucl.encoders.plain import raw_encoder
from pucl.errors import bad_argument
from pucl.heads import fit_head
from pucl.heads.tuned import FineTuned
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.registry import get

BATCH = 1024  # rows scored at a time


Teach = Callable[[Mapping[str, Any]], "Score"]


class Frozen:
    """An encoder with the problem's rows embedded once, and pseudo-labels that several tops share.

    Attributes:
        z: the embeddings, (n, k).
        collapsed: whether all rows have the same, so that no labeller can tell them apart.
        told: the labelled rows that the encoder was told of, where some were withheld from it.
    """

    def __init__(
        self, encoder: Encoder, problem: Problem, device: str, teach: Teach | None = None, withheld: float = 0
    ) -> None:
        self.encoder, self.problem, self.device, self.teach = encoder, problem, device, teach
        self.told = problem.told(withheld) if withheld else None
        self.z = embed(encoder, problem.x).to(device)
        self.collapsed = bool((self.z == self.z[0]).all())
        self._labels: dict[str, PseudoLabels] = {}

    def pseudo(self, config: Mapping[str, Any], told: float | None) -> PseudoLabels:
        """What the cell's labeller says of the rows, asked once."""
        if config["labeller"] == TEACHER:
            logits = self.teacher(config)(self.problem.x)
            labelled = torch.as_tensor(self.problem.s, device=logits.device)
            return PseudoLabels.from_probability(torch.sigmoid(logits), labelled)
        key = canonical([config["labeller"], config["labeller_options"], told])
        if key not in self._labels:
            how = current_options(from_json(config["labeller_options"]))
            if OTHERS in how:
                how[OTHERS] = [_raw(self.problem).to(self.device)]
            seed = self.problem.seed
            self._labels[key] = pseudo_label(
                self.z, self.problem.s, method=config["labeller"], prior=told, seen_by_encoder=self.told, seed=seed,
                **how,
            )  # fmt: skip
        return self._labels[key]

    def sample(self) -> tuple[Problem, Tensor]:
        """The rows that stand for P and U, and their embeddings: without labelled ones the encoder was told of."""
        if self.told is None:
            return self.problem, self.z
        return self.problem.only(~self.told), self.z[torch.as_tensor(~self.told, device=self.z.device)]

    def seen(self) -> tuple[Tensor, Any]:
        """The embeddings and s of these rows."""
        problem, z = self.sample()
        return z, problem.s

    def teacher(self, config: Mapping[str, Any]) -> "Score":
        """The scorer of the pipeline that a cell learns from."""
        if self.teach is None:
            raise bad_argument("pucl bench", "teach", "given where a cell has a teacher", None)
        return self.teach(config)


def fit_top(config: Mapping[str, Any], frozen: Frozen, exam: Exam) -> Fitted:
    """The top of a pipeline cell, fitted.

    On a collapsed encoder U looks as P does, so that labellers take all of it for positive.
    """
    if config["head"] == KNN:
        return Fitted(None)
    if frozen.collapsed and config["labeller"] not in (None, TRUTH, TEACHER):
        warnings.warn("the encoder has collapsed: all embeddings are equal, every row is called positive", stacklevel=2)
        return Fitted(lambda x: torch.ones(len(x)))
    if config["labeller"] == TRUTH:
        return _fit_reference(config, frozen, exam)
    told = exam.prior(config["top_prior"], frozen.seen, frozen.problem.seed)
    if config["labeller"] is None:
        problem, z = frozen.sample()
        labelled = torch.as_tensor(problem.s, device=z.device)
        nothing = PseudoLabels.from_probability(labelled.float(), labelled)  # of which the head takes no label
        return Fitted(_score(config, frozen, problem, z, nothing, told), told=told)
    pseudo = frozen.pseudo(config, told)
    return Fitted(_score(config, frozen, frozen.problem, frozen.z, pseudo, told), pseudo, told)


def fit_method(config: Mapping[str, Any], problem: Problem, exam: Exam, device: str) -> Fitted:
    """The baseline of a cell, fitted; an estimated prior comes from the raw rows. "supervised" is told the truth."""
    from pucl.baselines import fit_baseline

    told, labels = exam.prior(config["prior"], lambda: (_raw(problem), problem.s), problem.seed), problem.s
    if config["method"] == SUPERVISED:
        known, labels = exam.training_truth()
        problem = problem.only(known)
    scorer = fit_baseline(
        registered(config["method"]), problem.x, labels, prior=told, encoder=config["encoder"],
        settings=current_settings(from_json(config["settings"])), seed=problem.seed, device=device,
    )  # fmt: skip

    @torch.no_grad()
    def score(x: Any) -> Tensor:
        return torch.cat([scorer(rows.to(device)) for rows in torch.split(as_rows(x, owner="pucl bench"), BATCH)])

    return Fitted(score, told=told)


class Opinion(nn.Module):
    """Logits (n,) of a batch of float rows on the device."""

    def __init__(self, encoder: nn.Module, head: Any, *, normalise: bool) -> None:
        super().__init__()
        self.encoder, self.head, self.normalise = encoder, head, normalise

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,)."""
        z = self.encoder(x)
        logits: Tensor = self.head(F.normalize(z.float(), dim=1) if self.normalise else z)
        return logits


class Score:
    """Raw rows → logits (n,), in batches.

    Attributes:
        opinion: the same for batches that are on the device already.
        tuned: the model, where encoder and layer were fine-tuned.
    """

    tuned: FineTuned | None = None

    def __init__(self, encoder: nn.Module, head: Any, device: str, *, normalise: bool) -> None:
        self.opinion, self.device = Opinion(encoder, head, normalise=normalise).eval(), device

    @classmethod
    def of_tuned(cls, model: FineTuned, device: str) -> "Score":
        """Of a fine-tuned model."""
        score = cls(model.encoder, model.score, device, normalise=False)
        score.tuned = model
        return score

    @torch.no_grad()
    def __call__(self, x: Any) -> Tensor:
        """Logits (n,) of raw rows."""
        of = self.opinion
        logits: Tensor = of.head(embed(of.encoder, x, batch_size=BATCH, normalise=of.normalise).to(self.device))
        return logits


def _score(
    config: Mapping[str, Any], frozen: Frozen, problem: Problem, z: Tensor, pseudo: PseudoLabels, told: float | None
) -> Score:
    """The head of a cell on rows, embeddings and pseudo-labels that belong together."""
    options = dict(config["head_options"])
    if config["head"] == FINE_TUNE:
        if VIEW in options:
            options[VIEW] = view_of(options)
            del options[VIEW_OPTIONS]
        teacher = frozen.teacher(config).opinion if options.pop(MATCH, False) else None
        how = {**from_json(options), "teacher": teacher, "seed": problem.seed}
        model = tune(problem.x, problem.s, pseudo, frozen.encoder, how, device=frozen.device)
        return Score.of_tuned(model, frozen.device)
    takes = inspect.signature(get("heads", config["head"]).function).parameters
    given = {"seed": problem.seed, "prior": told}
    more = {name: value for name, value in given.items() if name in takes and value is not None}
    head = fit_head(z, problem.s, pseudo, method=config["head"], **current_options(from_json(options)), **more)
    return Score(frozen.encoder, head, frozen.device, normalise=True)


def _fit_reference(config: Mapping[str, Any], frozen: Frozen, exam: Exam) -> Fitted:
    """A head on the true labels of the problem's rows, as far as they are known: a ceiling, not a method."""
    known, truth = exam.training_truth()
    problem, z = frozen.problem.only(known), frozen.z[torch.as_tensor(known, device=frozen.z.device)]
    labels = torch.as_tensor(truth, device=z.device)
    share = float(truth[~problem.s].mean())
    pseudo = PseudoLabels(labels, labels.float(), torch.ones_like(labels, dtype=torch.float32), share)
    return Fitted(_score(config, frozen, problem, z, pseudo, None))


def _raw(problem: Problem) -> Tensor:
    rows = as_rows(problem.x, owner="pucl bench")
    return embed(raw_encoder(rows), rows)
