"""Comparing candidates: embedding, labeller and head, judged on rows they did not learn from."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch import device as Device

from pucl.encoders.plain import RAW
from pucl.fitting.answered import share_of_rest
from pucl.fitting.average import Average
from pucl.fitting.encode import TRAINED, Encoded
from pucl.fitting.plan import AUTO, FitOptions, FitPlan
from pucl.heads import fit_head
from pucl.numerics.auc import auc_difference
from pucl.pseudo_labels import PseudoLabels, find_labeller, pseudo_label
from pucl.ranking import DEFAULT_RANKER
from pucl.selection.scores import unlabelled_rows

ERRORS_SAME, ERRORS_OTHER = 1.0, 2.0  # standard errors by which a candidate must win: on its embedding, on another
CPU = Device("cpu")
TUNED = ", fine-tuned on "  # in the name of an encoder that was
AVERAGE, BLEND = "average", "blend"  # labeller and head of averaged rankers
ALL_FOLDS_UP_TO, TWO_FOLDS_UP_TO = 3000, 10_000  # rows up to which all folds, or two, are judged of those never seen


class Recipe(NamedTuple):
    """From an embedding to a classifier: a labeller and a head with their options."""

    labeller: str
    head: str
    options: Mapping[str, Any] = MappingProxyType({})
    head_options: Mapping[str, Any] = MappingProxyType({})


LINEAR = Recipe("cvir", "linear", head_options=MappingProxyType({"l2": 2e-2, "soft": False, "weighted": True}))
# Narrower than on an embedding and not centred: raw rows have a constant column for that.
KERNEL = Recipe("kernel_cvir", "kernel", options=MappingProxyType({"width": 0.2, "centred": False}))
# For many small clusters, such as all pictures of a person: neighbours have the same label.
NEIGHBOURS = Recipe("stacked", "knn", head_options=MappingProxyType({"k": 20, "temperature": 0.05, "centred": True}))


@dataclass(frozen=True)
class Candidate:
    """An embedding (n, k) with a labeller and a head.

    Attributes:
        encoder: what made the embedding.
        z: the embedding.
        labeller: a registered one.
        head: a registered one.
        folds: the folds it is judged on, whose labels the embedding never saw.
        options: of the labeller.
        head_options: of the head.
        memorised_rows: labelled rows that the encoder has memorised, (n,) bool; they do not stand for the positives.
        device: where labels and head are computed; they come back to that of the embedding.
    """

    encoder: str
    z: Tensor
    labeller: str
    head: str
    folds: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    head_options: Mapping[str, Any] = field(default_factory=dict)
    memorised_rows: Tensor | None = None
    device: Device = CPU

    @property
    def name(self) -> str:
        """Encoder, labeller and head, for messages."""
        return f"{self.encoder} + {self.labeller} + {self.head}"

    def label(
        self,
        used: Tensor,
        labelled: Tensor,
        *,
        prior: float | None,
        seed: int,
        negative: Tensor | None = None,
        quick: bool = True,
    ) -> PseudoLabels:
        """Pseudo-labels of the rows `used`; with `quick`, one draw of a labeller that averages several."""
        takes = inspect.signature(find_labeller(self.labeller).function).parameters
        options = {**self.options, **({"repeats": 1} if quick and "repeats" in takes else {})}
        seen = None if self.memorised_rows is None else self.memorised_rows[used]
        known = None if negative is None else negative[used]
        pseudo = pseudo_label(
            self.z[used].to(self.device), labelled[used], method=self.labeller, prior=prior, negatives=known,
            seen_by_encoder=seen, seed=seed, **options,
        )  # fmt: skip
        return pseudo.to(self.z.device)


@dataclass(frozen=True)
class Judged:
    """Logits of the rows a candidate did not learn from, at their numbers; the rest is NaN, (n,).

    `recall` is the share of the labelled rows called positive where each was left out when the threshold was chosen;
    None where the threshold was not chosen by them.
    """

    candidate: Candidate
    logits: NDArray[np.float64]
    recall: float | None = None

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Which rows were judged."""
        return np.isfinite(self.logits)


@dataclass(frozen=True)
class Comparison:
    """What was compared, and what is to be taken.

    Attributes:
        judged: the candidates as they were judged.
        best: the number of the one to take.
        average: the averaged rankers; None where there were none.
        skipped: names of candidates for which there was no time.
    """

    judged: tuple[Judged, ...]
    best: int
    average: Average | None = None
    skipped: tuple[str, ...] = ()

    @property
    def chosen(self) -> Judged:
        """The candidate to take."""
        return self.judged[self.best]

    @property
    def averaged(self) -> Average | None:
        """The averaged rankers, where they are the candidate to take."""
        return self.average if self.chosen.candidate.labeller == AVERAGE else None


def compare(plan: FitPlan, encoded: Mapping[str, Encoded], average: Average | None = None) -> Comparison:
    """Judge every candidate on folds hidden from it, and choose; `average` was judged by out-of-sample scores."""
    judged = []
    if average is not None:
        candidate = Candidate(RAW, encoded[RAW].z, AVERAGE, BLEND, tuple(range(plan.n_folds)))
        judged.append(Judged(candidate, average.logits))
    candidates = candidates_of(plan, encoded)
    others = judge(
        candidates, plan.train_positive, plan.fold, prior=share_of_rest(plan, plan.prior), seed=plan.options.seed,
        negative=plan.train_negative,
        deadline=plan.deadline, required=not judged, on_progress=partial(plan.progress, "comparing"),
    )  # fmt: skip
    judged += others
    skipped = tuple(candidate.name for candidate in candidates[len(others) :])
    return Comparison(tuple(judged), choose(judged, plan.labelled.numpy(), plan.aside), average, skipped)


def with_share(plan: FitPlan, encoded: Mapping[str, Encoded]) -> FitPlan:
    """With answers of reviewers and without a given π, the plan with π̂ by a labeller that did not use the answers."""
    if plan.answered is None or plan.prior is not None:
        return plan
    for candidate in candidates_of(plan, encoded)[:1]:
        alone = candidate.label(plan.counted, plan.labelled, prior=None, seed=plan.options.seed, negative=plan.negative)
        return replace(plan, share=alone.prior)
    return plan  # averaged rankers need no π


def candidates_of(plan: FitPlan, encoded: Mapping[str, Encoded]) -> list[Candidate]:
    """What is compared, the default first: the trained encoder for images, the raw rows for other data.

    The rows of tables, and other rows that averaged rankers separate, are left to these, see `fast_first`. Other raw
    rows are scored linearly, unless a kernel or the nearest rows rank hidden positives better: a linear score is
    steadier on few rows, but fails on classes of several modes; a kernel fails on many small clusters (LOG.md).
    """
    folds = tuple(range(plan.n_folds))
    images = plan.schema.kind == "image" and TRAINED in encoded  # raw pixels are only compared on the first fold
    recipes = {
        TRAINED: (Recipe(DEFAULT_RANKER, "linear"),),
        RAW: (KERNEL, NEIGHBOURS) if images else (LINEAR, KERNEL, NEIGHBOURS),
    }
    candidates = []
    for key in (TRAINED, RAW) if images else (RAW, TRAINED):
        if key not in encoded or (key == RAW and plan.averages and (plan.settled or plan.schema.kind == "table")):
            continue
        unseen = folds if key == RAW and not images else folds[: plan.hidden_folds]
        n = len(plan.rows)
        judged_on = unseen if n <= ALL_FOLDS_UP_TO else unseen[: 2 if n <= TWO_FOLDS_UP_TO else 1]
        z, memorised = encoded[key].z, encoded[key].memorised_rows
        candidates += [
            Candidate(
                key,
                z,
                recipe.labeller,
                recipe.head,
                judged_on,
                recipe.options,
                recipe.head_options,
                memorised,
                plan.device,
            )
            for recipe in _requested(recipes[key], plan.options)
        ]
    return candidates


def _requested(recipes: tuple[Recipe, ...], options: FitOptions) -> tuple[Recipe, ...]:
    """The recipes with the labeller and the head that the user chose, each pair once."""
    if options.labeller == options.head == AUTO:
        return recipes
    pairs: dict[tuple[str, str], Recipe] = {}
    for recipe in recipes:
        labeller = recipe.labeller if options.labeller == AUTO else options.labeller
        head = recipe.head if options.head == AUTO else options.head
        of_labeller = recipe.options if labeller == recipe.labeller else {}
        of_head = recipe.head_options if head == recipe.head else {}
        pairs.setdefault((labeller, head), Recipe(labeller, head, of_labeller, of_head))
    return tuple(pairs.values())


def judge(
    candidates: Sequence[Candidate],
    labelled: Tensor,
    fold: Tensor,
    *,
    prior: float | None,
    seed: int,
    negative: Tensor | None = None,
    deadline: float | None = None,
    required: bool = True,
    on_progress: Callable[[float, str], None] = lambda _done, _name: None,
) -> list[Judged]:
    """Logits of every fold a candidate is judged on, from heads fitted to the other folds.

    Heads of one labeller share its labels. After the deadline no other candidate is begun; with `required`, the first
    is judged in any case. `on_progress` is called with the share that is done and the name of the next candidate.
    """
    judged: list[Judged] = []
    known: dict[tuple[str, str, int], PseudoLabels] = {}
    done, parts = 0, sum(len(candidate.folds) for candidate in candidates)
    for candidate in candidates:
        if (judged or not required) and deadline is not None and time.perf_counter() > deadline:
            break
        logits = np.full(len(labelled), np.nan)
        for k in candidate.folds:
            on_progress(done / parts, candidate.name)
            done += 1
            used, key = fold != k, (candidate.encoder, candidate.labeller, k)
            if key not in known:
                known[key] = candidate.label(used, labelled, prior=prior, seed=seed, negative=negative)
            head = head_of(candidate, candidate.z[used], labelled[used], known[key], seed)
            with torch.no_grad():
                logits[(fold == k).numpy()] = head(candidate.z[fold == k]).double().numpy()
        judged.append(Judged(candidate, logits))
    return judged


def head_of(candidate: Candidate, z: Tensor, labelled: Tensor, pseudo: PseudoLabels, seed: int) -> nn.Module:
    """The candidate's head on some rows and their pseudo-labels."""
    drawn = {} if candidate.head in ("linear", "knn") else {"seed": seed}
    options = {**candidate.head_options, **drawn}
    on = candidate.device
    head = fit_head(z.to(on), labelled, pseudo.to(on), method=candidate.head, **options)
    return head.to(z.device)


def choose(judged: Sequence[Judged], labelled: NDArray[np.bool_], aside: NDArray[np.bool_] | None = None) -> int:
    """The number of the candidate to take: the first, unless a later one ranks P above U better by more than noise.

    Compared by the AUC of P against U, on the rows that both were judged on. A trained encoder must win by more
    standard errors (`ERRORS_OTHER`): few positives are hidden, and it never saw those that judge it.

    Rows that are set `aside`, confirmed negatives and extra rows, are no part of U and do not count: where they were
    reviewed because they scored high, P against them would say how a candidate ranks such rows only.
    """
    best, unlabelled = 0, unlabelled_rows(labelled, aside)
    for number in range(1, len(judged)):
        shared = judged[best].rows & judged[number].rows
        p, u = shared & labelled, shared & unlabelled
        if not p.any() or not u.any():
            continue
        new, old = ((logits[p], logits[u]) for logits in (judged[number].logits, judged[best].logits))
        gain, error = auc_difference(new, old)
        if gain > errors_needed(judged[number].candidate, judged[best].candidate) * error:
            best = number
    return best


def is_tuned(candidate: Candidate) -> bool:
    """Whether its encoder was fine-tuned together with its head."""
    return TUNED in candidate.encoder


def errors_needed(one: Candidate, other: Candidate) -> float:
    """The standard errors by which a candidate must win against one that comes before it.

    Raw rows need no more against a trained encoder than against each other: they are simpler.
    """
    return ERRORS_SAME if one.encoder in (other.encoder, RAW) else ERRORS_OTHER
