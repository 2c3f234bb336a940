"""The whole way from rows and s to a model."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pucl.device import pick_device
from pucl.encoders.axes import COUNT, plain_encoder
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.errors import Described, bad_argument, is_number
from pucl.fitting.candidates import FOLDS, Candidate, Judged, at_share, calibrated, choose, head_of, judge
from pucl.fitting.recipe import AUTO, AXES, HELD, OWNER, RAW, WIDE, Pretraining, Recipe, name_of, plan_pretraining
from pucl.fitting.tuning import WAYS, choose_way, tune
from pucl.labels import check_labels
from pucl.models.model import Model
from pucl.models.record import CandidateScores, Choices, EpochRecord, FitRecord, RowCounts, within_bounds
from pucl.models.schema import Schema
from pucl.numerics.logistic import stratified_folds
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import AUTO as LABELLER
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.cvir import inner
from pucl.ranking.prior import estimate_prior
from pucl.selection import PUScores, diagnose, pu_scores
from pucl.selection.diagnostics import learnt_by_heart
from pucl.training.checkpoints import fingerprint
from pucl.training.pretraining import Pretrained, pretrain
from pucl.training.reporting import Epoch

Tell = Callable[[str, float], None]
TRAINED = "trained"
SMALL = 3000  # rows up to which every fold is judged whose labels the embedding never saw


class Way(NamedTuple):
    """From an embedding to a classifier: a labeller and a head with their options."""

    labeller: str
    head: str
    options: Mapping[str, Any] = MappingProxyType({})
    head_options: Mapping[str, Any] = MappingProxyType({})


PLANE = Way("cvir", "linear", head_options=MappingProxyType({"l2": 2e-2, "soft": False, "weighted": True}))
# A narrower kernel than on an embedding, and seen from the origin: raw rows have a constant beside them for that.
BUMPS = Way("kernel_cvir", "kernel", options=MappingProxyType({"width": 0.2, "centred": False}))
# For many small clusters, such as all pictures of a person: near rows speak for each other.
NEAR = Way("stacked", "knn", head_options=MappingProxyType({"k": 20, "temperature": 0.05, "centred": True}))


@dataclass(frozen=True)
class Fitted:
    """A model, and what is known of its training rows."""

    model: Model
    z: Tensor
    pseudo: PseudoLabels
    judged: Judged
    history: list[Epoch]


@dataclass(frozen=True)
class Encoded:
    """An encoder and what it makes of the rows.

    Attributes:
        name: of the encoder; None for one of somebody's own.
        encoder: raw rows → embeddings.
        z: of the rows, (n, k).
        trained: what is known of its training, where it was trained.
        told: the labelled rows it was told of, (n,) bool, where it has learnt them by heart.
        apart: by what AUC these are told from labelled rows it was not told of.
    """

    name: str | None
    encoder: Encoder
    z: Tensor
    trained: Pretrained | None = None
    told: Tensor | None = None
    apart: float | None = None


def fit(
    rows: Tensor,
    s: Any,
    schema: Schema,
    recipe: Recipe,
    *,
    device: str | torch.device | None = None,
    tell: Tell = lambda _what, _done: None,
) -> Fitted:
    """Fit a model to rows as the encoder takes them.

    Two fifths of P are hidden from the encoder's training, and with a fifth of U each, one after the other (of many
    rows the first only), from the heads that are compared. What ranks the hidden positives highest is fitted again, to
    all rows with all labels. Where the encoder has learnt the labelled rows it was told of by heart, the others alone
    stand for the positives.
    """
    began = time.perf_counter()
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=OWNER))
    n_p, n_u = int(labelled.sum()), int((~labelled).sum())
    if min(n_p, n_u) < 2:
        got = Described(f"{n_p} labelled and {n_u} unlabelled")
        raise bad_argument(OWNER, "s", "labels with at least two rows of each kind", got)
    place = pick_device(device)
    plan = plan_pretraining(recipe, schema, len(rows), n_p, place)
    fold = stratified_folds(labelled, min(FOLDS, n_p, n_u), recipe.seed)
    prior = float(recipe.prior) if isinstance(recipe.prior, float | int) else None

    small = schema.kind != "image" or (rows[0].numel() <= WIDE and rows.numel() <= HELD)
    compared = plan is None or (recipe.encoder == AUTO and small)
    known_early = isinstance(recipe.prior, str)
    plain = raw(rows, along=recipe.encoder == AXES, seed=recipe.seed) if compared or known_early else None
    encoded = {RAW: plain} if compared and plain is not None else {}
    if plan is not None:
        known = prior if plain is None or prior is not None else _named_prior(recipe, plain.z, labelled)
        encoded[TRAINED] = _trained(rows, labelled, fold, plan, recipe, known, place, tell)
    tell("comparing", 0.8)
    candidates = _candidates(encoded, schema, recipe, fold)
    judged = judge(candidates, labelled, fold, prior=prior, seed=recipe.seed)
    best = choose(judged, labelled.numpy())
    found, used = judged[best], encoded[candidates[best].encoder]

    tell("fitting", 0.9)
    estimate, pseudo = _labels(recipe, prior, found.candidate, labelled)
    share = estimate.value
    head = head_of(found.candidate, used.z, labelled, pseudo, recipe.seed)
    encoder, way = used.encoder, None
    if recipe.fine_tune and used.trained is not None:
        tell("fine-tuning", 0.92)
        how: dict[str, Any] = {"seed": recipe.seed, "device": place}
        way, more = choose_way(rows, labelled, fold, found, encoder, prior=prior, **how)
        judged += more
        if way is not None:
            encoder, head = tune(rows, labelled, pseudo, encoder, way, **how)
            best = len(candidates) + list(WAYS).index(way)
            found = judged[best]
    if recipe.prior is not None:
        found = at_share(found, labelled, share)
    scores = _scores(found, labelled, share)
    record = FitRecord(
        kind=schema.kind,
        rows=RowCounts(len(rows), n_p, n_u),
        fingerprint=fingerprint(rows, labelled),
        choices=_choices(found.candidate, used, plan, way),
        reasons=tuple(_reasons(plan, recipe, [one.candidate for one in judged], best, used.name)),
        candidates=tuple(_compared(one, labelled, share, chosen=number == best) for number, one in enumerate(judged)),
        prior=estimate,
        metrics=scores,
        diagnostics=tuple(_diagnostics(used, labelled, pseudo, recipe.seed)),
        warnings=tuple(used.trained.warnings) if used.trained is not None else (),
        history=tuple(_epoch(epoch) for epoch in used.trained.history) if used.trained is not None else (),
        seed=recipe.seed,
        seconds=round(time.perf_counter() - began, 2),
    )
    encoder = encoder.cpu()
    z = used.z if way is None else embed(encoder, rows)
    cut_on = z[~labelled] if recipe.prior is not None else None
    model = Model(schema, encoder, used.name, calibrated(head, found, labelled, share, cut_on=cut_on), record)
    tell("done", 1.0)
    return Fitted(model, z, pseudo, found, used.trained.history if used.trained is not None else [])


def raw(rows: Tensor, *, along: bool = False, seed: int = 0) -> Encoded:
    """The rows as they are, standardised; along their principal axes where asked for or where columns are very many."""
    name, encoder = plain_encoder(rows, along=along, seed=seed)
    return Encoded(name, encoder, embed(encoder, rows))


def _trained(
    rows: Tensor, labelled: Tensor, fold: Tensor, plan: Pretraining, recipe: Recipe, prior: float | None,
    device: torch.device, tell: Tell,
) -> Encoded:  # fmt: skip
    """The encoder trained with the labels of the first folds hidden."""

    def on_epoch(epoch: Epoch) -> None:
        tell(f"pretraining, loss {epoch.loss:.3f}", 0.75 * epoch.number / epoch.of)

    shown = labelled & (fold >= _hidden(fold))
    trained = pretrain(
        rows, shown, objective=plan.objective, encoder=plan.encoder, view=plan.view, temperature=recipe.temperature,
        prior=prior, config=plan.config, device=device, on_epoch=on_epoch,
    )  # fmt: skip
    name = plan.encoder if isinstance(plan.encoder, str) else None
    z = embed(trained.encoder, rows)
    apart, learnt = learnt_by_heart(z, shown, labelled & ~shown, seed=recipe.seed)
    return Encoded(name, trained.encoder.eval(), z, trained, shown if learnt else None, apart)


def _hidden(fold: Tensor) -> int:
    """How many folds are hidden from the encoder: two, so that one can be judged by labels that the other gives."""
    return 2 if int(fold.max()) >= 3 else 1


def _named_prior(recipe: Recipe, z: Tensor, labelled: Tensor) -> float | None:
    """π by the estimator asked for, from the rows as they are, for objectives that need it before any training."""
    if not isinstance(recipe.prior, str):
        return None
    found = estimate_prior(z, labelled, method=recipe.prior, seed=recipe.seed)
    return inner(found.value, int((~labelled).sum()))


def _candidates(encoded: dict[str, Encoded], schema: Schema, recipe: Recipe, fold: Tensor) -> list[Candidate]:
    """What is compared, the one to keep in doubt first: of images what was trained, else the rows as they are.

    Raw rows are scored by a plane and, if that ranks hidden positives better, by bumps or by the nearest rows: on small
    tables a plane is steadier, on classes of several modes it fails, and on many small clusters bumps do too (LOG.md).
    """
    folds = tuple(range(int(fold.max()) + 1))
    images = schema.kind == "image" and TRAINED in encoded  # raw pixels are only there to be compared with, by fold 0
    ways = {TRAINED: (Way(LABELLER, "linear"),), RAW: (BUMPS, NEAR) if images else (PLANE, BUMPS, NEAR)}
    found = []
    for key in (TRAINED, RAW) if images else (RAW, TRAINED):
        untold = folds if key == RAW and not images else folds[: _hidden(fold)]
        honest = untold if len(fold) <= SMALL else folds[:1]
        for way in _asked(ways[key], recipe) if key in encoded else ():
            z, told = encoded[key].z, encoded[key].told
            found.append(Candidate(key, z, way.labeller, way.head, honest, way.options, way.head_options, told))
    return found


def _asked(ways: tuple[Way, ...], recipe: Recipe) -> tuple[Way, ...]:
    """The ways with the labeller and the head that were asked for, each pair once."""
    if recipe.labeller == recipe.head == AUTO:
        return ways
    found: dict[tuple[str, str], Way] = {}
    for way in ways:
        labeller = way.labeller if recipe.labeller == AUTO else recipe.labeller
        head = way.head if recipe.head == AUTO else recipe.head
        options = way.options if labeller == way.labeller else {}
        found.setdefault((labeller, head), Way(labeller, head, options, way.head_options if head == way.head else {}))
    return tuple(found.values())


def _labels(
    recipe: Recipe, prior: float | None, candidate: Candidate, labelled: Tensor
) -> tuple[PriorEstimate, PseudoLabels]:
    """π with its interval, given, by the estimator asked for or by the labeller; and the pseudo-labels made with it."""
    seed, everyone = recipe.seed, torch.ones_like(labelled)

    def label(share: float | None) -> PseudoLabels:
        return candidate.label(everyone, labelled, prior=share, seed=seed, quick=False)

    if prior is not None:
        return PriorEstimate(prior, prior, prior, "given"), label(prior)
    method = recipe.prior if isinstance(recipe.prior, str) else AUTO
    repeats = 1 if recipe.prior is None else None  # of the labeller's own π̂ only the interval is wanted here
    asked = everyone if candidate.told is None else ~candidate.told
    found = estimate_prior(candidate.z[asked], labelled[asked], method=method, seed=seed, repeats=repeats)
    n_u = int((~labelled).sum())
    if recipe.prior is not None:
        found = replace(found, value=inner(found.value, n_u))
        return found, label(found.value)
    pseudo = label(None)
    share = inner(pseudo.prior, n_u)
    return PriorEstimate(share, min(found.low, share), max(found.high, share), candidate.labeller), pseudo


def _scores(judged: Judged, labelled: Tensor, prior: float) -> PUScores | None:
    rows = judged.rows
    s = labelled.numpy()[rows]
    return within_bounds(pu_scores(judged.logits[rows], s, prior=prior)) if s.any() and not s.all() else None


def _compared(judged: Judged, labelled: Tensor, prior: float, *, chosen: bool) -> CandidateScores:
    name, scores = judged.candidate.name, _scores(judged, labelled, prior)
    if scores is None:
        return CandidateScores(name, chosen)
    return CandidateScores(name, chosen, scores.auc, scores.proxy_accuracy)


def _diagnostics(used: Encoded, labelled: Tensor, pseudo: PseudoLabels, seed: int) -> list[str]:
    """Findings in words. Of raw rows only the last, about how P was labelled: they need not lie in clusters."""
    asked = torch.ones_like(labelled) if used.told is None else ~used.told
    z, s = used.z[asked], labelled[asked]
    if min(int(s.sum()), int((~s).sum())) < 4:
        return []
    messages = diagnose(z, s, pseudo=pseudo.only(asked), seed=seed).messages
    learnt = [] if used.told is None else [
        f"The encoder knows labelled rows it was told of by heart: they can be told from others with AUC "
        f"{used.apart:.2f}. Those it was not told of, {int(s.sum()):,}, stand for the positives by themselves."
    ]  # fmt: skip
    return [*learnt, *(messages if used.trained is not None else messages[-1:])]


def _choices(candidate: Candidate, used: Encoded, plan: Pretraining | None, way: str | None) -> Choices:
    if plan is None or used.trained is None:
        return Choices(str(used.name), candidate.labeller, candidate.head, None, way)
    return Choices(name_of(plan.encoder), candidate.labeller, candidate.head, plan.choices, way)


def _reasons(
    plan: Pretraining | None, recipe: Recipe, candidates: list[Candidate], best: int, encoder: str | None
) -> list[str]:
    taken, raw_rows = candidates[best], candidates[best].encoder == RAW
    found = list(plan.reasons) if plan is not None and not raw_rows else []
    if plan is None:
        asked = recipe.encoder in (RAW, AXES)
        found.append(f"no pretraining: {'as asked' if asked else 'too few rows or labels for it to pay'}")
    elif raw_rows:
        found.append(f"rows as they are: an encoder ({name_of(plan.encoder)}) was trained and did not rank better")
    if raw_rows and encoder == AXES != recipe.encoder:
        found.append(f"rows as they are: seen along the {COUNT} axes of largest variance, there are more columns")
    if recipe.fine_tune and raw_rows:
        found.append("no fine-tuning: the rows are used as they are")
    if len(candidates) > 1:
        others = ", ".join(one.name for number, one in enumerate(candidates) if number != best)
        found.append(f"{taken.name}: ranks hidden positives best, or as well as any ({others})")
    return found


def _epoch(epoch: Epoch) -> EpochRecord:
    health = asdict(epoch.health) if epoch.health is not None else {}
    numbers = {"loss": epoch.loss, "learning_rate": epoch.learning_rate, **health}
    return EpochRecord(epoch.number, **{name: value for name, value in numbers.items() if is_number(value)})
