"""The record of a fit, put together from the results of its stages."""

import platform
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.errors import is_number
from pucl.fitting.compare import Comparison, Judged
from pucl.fitting.encode import Encoded
from pucl.fitting.importance import column_importance
from pucl.fitting.label import Labels
from pucl.fitting.plan import FitPlan, name_of
from pucl.fitting.reasons import Contest, contest_of, reasons_of
from pucl.fitting.tune import Classifier
from pucl.labels import FEWEST_UNLABELLED
from pucl.models.record import CandidateScores, Choices, EpochRecord, FitRecord, RowCounts, within_bounds
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.averaging import Ranked
from pucl.selection import (
    NOT_JUDGED,
    PUScores,
    RankingScores,
    Verdict,
    diagnose,
    lift,
    ranking_scores,
    score_ranges,
    simple_rivals,
    verdict,
)
from pucl.selection.diagnostics import at_most
from pucl.selection.scores import Estimate, scores_at_share
from pucl.training.checkpoints import fingerprint
from pucl.training.reporting import Epoch

FEWEST_TO_DIAGNOSE = 4  # rows of P and of U
MOST_DIAGNOSED = 10_000  # rows of P, and of U
MOST_COLUMNS = 1024  # that a simple rival looks at


def record_fit(plan: FitPlan, labels: Labels, classifier: Classifier, judged: Judged) -> FitRecord:
    """What the fit was made of and how good it is estimated to be.

    `judged` is the chosen candidate, with the threshold of the model.
    """
    labelled, prior, used = plan.labelled, labels.prior, classifier.encoded
    trained, comparison, hidden = used.trained, classifier.comparison, Hidden.of(plan, judged)
    n, n_p, n_u, metrics = int(plan.counted.sum()), int(labelled.sum()), plan.n_unlabelled, _scores(hidden, prior)
    return FitRecord(
        kind=plan.schema.kind,
        rows=RowCounts(n, n_p, n_u, n - n_p - n_u),
        prior=labels.prior,
        choices=_choices(plan, classifier),
        reasons=tuple(reasons_of(plan, used, comparison)),
        candidates=(
            *(_scored(plan, each, prior, comparison) for each in comparison.judged),
            *(
                ()
                if comparison.average is None
                else (_ranked(plan, each, comparison) for each in comparison.average.ranked)
            ),
        ),
        metrics=metrics,
        verdict=NOT_JUDGED if metrics is None else _verdict(plan, hidden, prior),
        lift=() if metrics is None else lift(hidden.logits, hidden.labelled, negatives=hidden.negative),
        importance={} if comparison.averaged is None else column_importance(plan, comparison.averaged),
        score_ranges=score_ranges(metrics, prior.low, prior.high) if metrics is not None and prior.is_bound else {},
        diagnostics=tuple(_diagnostics(plan, used, labels.pseudo)),
        warnings=(*plan.leaks.messages, *(() if trained is None else trained.warnings)),
        history=() if trained is None else tuple(_epoch(epoch) for epoch in trained.history),
        seed=plan.options.seed,
        fingerprint=fingerprint(plan.features, plan.labels),
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """What this process computes with."""
    import sklearn

    libraries = {"torch": torch, "numpy": np, "scikit-learn": sklearn}
    return {"Python": platform.python_version(), **{name: str(each.__version__) for name, each in libraries.items()}}


@dataclass(frozen=True)
class Hidden:
    """The rows that a candidate was judged on, m of them.

    Attributes:
        rows: which of all rows they are, (n,) bool.
        logits: theirs, (m,).
        labelled: s, (m,).
        negative: confirmed negatives, (m,); None without any. They are left out where fewer than two rows of U, as
            many as scores with negatives need, were judged.
    """

    rows: NDArray[np.bool_]
    logits: NDArray[np.float64]
    labelled: NDArray[np.bool_]
    negative: NDArray[np.bool_] | None
    recall: float | None = None

    @classmethod
    def of(cls, plan: FitPlan, judged: Judged) -> "Hidden":
        """The rows that have logits and count."""
        rows, negative = judged.rows & plan.counted.numpy(), plan.negatives
        if negative is not None and (rows & plan.unlabelled.numpy()).sum() < FEWEST_UNLABELLED:
            rows, negative = rows & ~negative, None
        known = None if negative is None else negative[rows]
        return cls(rows, judged.logits[rows], plan.labelled.numpy()[rows], known, judged.recall)


def _scores(hidden: Hidden, prior: PriorEstimate) -> RankingScores | None:
    """The estimates from hidden positives, at the low end of π; those that need no π where it is only bounded."""
    logits, s, negative, recall = hidden.logits, hidden.labelled, hidden.negative, hidden.recall
    if not s.any() or s.all():
        return None
    base = ranking_scores(logits, s, negatives=negative, recall=recall)
    if prior.is_bound:
        return base
    free = ~s if negative is None else ~(s | negative)
    return within_bounds(scores_at_share(base, logits[s], logits[free], prior.cautious))


def _verdict(plan: FitPlan, hidden: Hidden, prior: PriorEstimate) -> Verdict:
    if plan.leaks.columns:
        made = "this was made from the label, or no positives are left to find"
        return Verdict("do not use", f"{plan.leaks.accused} labelled from unlabelled rows: {made}")
    rivals = _rivals(plan, hidden.rows)
    return verdict(hidden.logits, hidden.labelled, prior=prior, rivals=rivals, negatives=hidden.negative)


def _scored(plan: FitPlan, judged: Judged, prior: PriorEstimate, comparison: Comparison) -> CandidateScores:
    """A candidate with the AUC it was chosen by, on the rows it was judged on and beside the chosen one."""
    hidden = Hidden.of(plan, judged)
    scores = _scores(hidden, prior)
    chosen = judged is comparison.chosen
    contest = None if chosen else _contest(plan, judged.logits, comparison)
    return CandidateScores(
        judged.candidate.name,
        chosen,
        None if scores is None else scores.pu_auc,
        scores.proxy_accuracy if isinstance(scores, PUScores) else None,
        difference=None if contest is None else contest.gain,
        hidden=int(hidden.labelled.sum()),
    )


def _ranked(plan: FitPlan, ranked: Ranked, comparison: Comparison) -> CandidateScores:
    """One of the averaged rankers, judged by its out-of-sample scores."""
    contest = _contest(plan, ranked.score, comparison)
    return CandidateScores(
        ranked.name,
        pu_auc=Estimate(ranked.area, ranked.error),
        weight=ranked.weight,
        difference=None if contest is None else contest.gain,
        hidden=int(plan.labelled.sum()),
    )


def _contest(plan: FitPlan, other: NDArray[np.float64], comparison: Comparison) -> Contest | None:
    return contest_of(plan.labelled.numpy(), plan.unlabelled.numpy(), other, comparison.chosen.logits)


def _rivals(plan: FitPlan, judged: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Scores of the judged rows by one column and by the nearest labelled row; of images by every so many pixels."""
    rows, transform = plan.features.flatten(1), plan.schema.transform
    columns = rows[:, :: -(-rows.shape[1] // MOST_COLUMNS)].cpu().numpy()
    names = transform.features if transform is not None and len(transform.features) == columns.shape[1] else None
    image = plan.schema.kind == "image"
    scores = simple_rivals(
        columns, plan.labelled.numpy(), names=names, judged=judged, one_column=not image, seed=plan.options.seed,
        negatives=plan.aside,
    )  # fmt: skip
    return {name: score[judged] for name, score in scores.items()}


def _diagnostics(plan: FitPlan, used: Encoded, pseudo: PseudoLabels) -> list[str]:
    """Findings in words. For raw rows only the last one, on how P was labelled: raw rows need not form clusters.

    Of very many rows a random choice is looked at.
    """
    unseen = plan.in_p_or_u if used.memorised_rows is None else plan.in_p_or_u & ~used.memorised_rows
    hidden = int((unseen & plan.labelled).sum())
    p, u = (at_most(unseen & kind, MOST_DIAGNOSED, plan.options.seed) for kind in (plan.labelled, ~plan.labelled))
    unseen = p | u
    z, s = used.z[unseen], plan.labelled[unseen]
    if min(int(s.sum()), int((~s).sum())) < FEWEST_TO_DIAGNOSE:
        return []
    messages = diagnose(z, s, pseudo=pseudo.only(unseen), seed=plan.options.seed).messages
    memorised = [] if used.memorised_rows is None else [
        f"The encoder has memorised the labelled rows it was trained with: it tells them from hidden ones (AUC "
        f"{used.memorised_auc:.2f}). Only the {hidden:,} hidden ones stand for the positives."
    ]  # fmt: skip
    return [*memorised, *(messages if used.trained is not None else messages[-1:])]


def _choices(plan: FitPlan, classifier: Classifier) -> Choices:
    candidate, pretraining, used = classifier.comparison.chosen.candidate, plan.pretraining, classifier.encoded
    if pretraining is None or used.trained is None:
        return Choices(str(used.name), candidate.labeller, candidate.head)
    encoder, training = name_of(pretraining.encoder), pretraining.choices
    return Choices(encoder, candidate.labeller, candidate.head, training, classifier.fine_tuned)


def _epoch(epoch: Epoch) -> EpochRecord:
    health = asdict(epoch.health) if epoch.health is not None else {}
    numbers = {"loss": epoch.loss, "learning_rate": epoch.learning_rate, **health}
    return EpochRecord(epoch.number, **{name: value for name, value in numbers.items() if is_number(value)})
