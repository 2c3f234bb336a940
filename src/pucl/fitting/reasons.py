"""Why a fit chose what it chose, in sentences that agree with the figures beside them."""

from dataclasses import dataclass

import numpy as np

from pucl.encoders.pca_projection import MAX_AXES
from pucl.encoders.plain import PCA, RAW
from pucl.fitting.compare import Comparison, Judged, errors_needed, is_tuned
from pucl.fitting.encode import TRAINED, Encoded
from pucl.fitting.plan import FEWEST, FEWEST_LABELLED, FEWEST_VECTORS, FitPlan, name_of
from pucl.numerics.auc import Floats, auc, auc_difference
from pucl.ranking.bags import Bools
from pucl.selection.scores import Estimate


@dataclass(frozen=True)
class Contest:
    """A candidate against the chosen one, on the rows that both were judged on.

    Attributes:
        other: AUC of P against U of the candidate.
        chosen: of the chosen one.
        gain: by how much the candidate's is higher, with the standard error of the difference.
        n_p: hidden positives.
        n_u: unlabelled rows.
    """

    other: float
    chosen: float
    gain: Estimate
    n_p: int
    n_u: int


def contest_of(labelled: Bools, unlabelled: Bools, other: Floats, chosen: Floats) -> Contest | None:
    """Two candidates by their logits (n,), NaN where a row was not judged; None where they share no rows."""
    shared = np.isfinite(other) & np.isfinite(chosen)
    p, u = shared & labelled, shared & unlabelled
    if not p.any() or not u.any():
        return None
    theirs, ours = (other[p], other[u]), (chosen[p], chosen[u])
    gain = Estimate(*auc_difference(theirs, ours))
    return Contest(auc(*theirs)[0], auc(*ours)[0], gain, int(p.sum()), int(u.sum()))


def reasons_of(plan: FitPlan, used: Encoded, comparison: Comparison) -> list[str]:
    """Why the model is as it is, a sentence each."""
    options, chosen = plan.options, comparison.chosen.candidate
    raw = chosen.encoder == RAW
    reasons = [*_about_answers(plan), *_about_texts(plan), *_about_training(plan, comparison)]
    if raw and used.name == PCA != options.encoder:
        reasons.append(f"Raw rows: reduced to their {MAX_AXES} principal axes, because there are more columns.")
    if options.fine_tune and raw:
        reasons.append("No fine-tuning: raw rows have no encoder to tune.")
    if comparison.averaged is not None:
        counted = sorted(comparison.averaged.head.weights.items(), key=lambda each: -each[1])
        reasons.append(
            f"Ranks are averaged: {'; '.join(f'{100 * weight:.0f} % {name}' for name, weight in counted)}. "
            "The better one ranks hidden positives, the more it counts."
        )
    skipped = (*(() if comparison.average is None else comparison.average.skipped), *comparison.skipped)
    if skipped:
        reasons.append(f"Not tried within the time limit: {'; '.join(skipped)}.")
    return [*reasons, *_about_rivals(plan, comparison)]


def _about_answers(plan: FitPlan) -> list[str]:
    """How many rows reviewers have answered, and what these rows are used for."""
    if plan.answered is None:
        return []
    yes, no = int((plan.answered > 0).sum()), int((plan.answered < 0).sum())
    trained = f"Answers: {yes:,} rows reviewed as positive and {no:,} as negative train the model."
    counted = f"{trained} A model had picked them, so every figure counts them as unlabelled rows"
    extra = 0 if plan.extra is None else int(plan.extra.sum())
    return [f"{counted}, but for {extra:,} outside of the sample, which no figure counts." if extra else f"{counted}."]


def _about_texts(plan: FitPlan) -> list[str]:
    """Which columns were taken for text."""
    texts = () if plan.schema.transform is None else plan.schema.transform.texts
    return [f"Text: column {each.name!r} as {each.dimensions} numbers, by {each.encoder}." for each in texts]


def _about_training(plan: FitPlan, comparison: Comparison) -> list[str]:
    """Why an encoder was trained as it was, or not at all, or left."""
    pretraining = plan.pretraining
    if pretraining is None:
        return [_why_no_pretraining(plan)]
    reasons = list(pretraining.reasons)
    if comparison.chosen.candidate.encoder == RAW:
        compared = any(each.candidate.encoder == TRAINED for each in comparison.judged)
        why = "was compared, and not taken" if compared else "could not be compared within the time limit"
        reasons = [f"Raw rows: a trained encoder ({name_of(pretraining.encoder)}) {why}."]
    if pretraining.shortened_from is not None:
        epochs = f"{pretraining.config.epochs} epochs of {pretraining.shortened_from} planned"
        reasons.append(f"Training: stopped after {epochs}, to keep the time limit.")
    return reasons


def _why_no_pretraining(plan: FitPlan) -> str:
    if plan.options.encoder in (RAW, PCA):
        return "No pretraining: as requested."
    if plan.out_of_time:
        return "No pretraining: no time for it."
    if plan.settled and plan.schema.kind != "table":
        return "No pretraining: fast rankers separate the classes already."
    if plan.schema.kind == "table":
        return "No pretraining: it rarely pays on tables; encoder='mlp' asks for it."
    fewest = FEWEST if plan.schema.kind == "image" else FEWEST_VECTORS
    needs = f"{fewest:,} rows with {FEWEST_LABELLED} labelled positives"
    return f"No pretraining: too few rows or labels; it needs {needs}."


def _about_rivals(plan: FitPlan, comparison: Comparison) -> list[str]:
    """What the chosen candidate was compared with: by what, on which rows, and what decided."""
    chosen, labelled, unlabelled = comparison.chosen, plan.labelled.numpy(), plan.unlabelled.numpy()
    later_won = not is_tuned(chosen.candidate)  # a tuned one is kept for what was asked
    return [
        about_rival(
            contest_of(labelled, unlabelled, each.logits, chosen.logits), chosen, each,
            lost_before=later_won and comparison.best > number,
        )
        for number, each in enumerate(comparison.judged)
        if number != comparison.best
    ]  # fmt: skip


def about_rival(contest: Contest | None, chosen: Judged, other: Judged, *, lost_before: bool) -> str:
    """Why the chosen candidate was taken and not another one, which may have lost to a third before."""
    names = f"{chosen.candidate.name} rather than {other.candidate.name}"
    if contest is None:
        return f"{names}: no hidden positives were judged by both."
    rows = f"the same {contest.n_p:,} hidden positives and {contest.n_u:,} unlabelled rows"
    figures = f"{names}: AUC {contest.chosen:.3f} against {contest.other:.3f} on {rows}"
    gain = contest.gain
    if gain.value <= 0:
        return f"{figures} ({-gain.value:+.3f} ± {gain.error:.3f})."
    higher = f"{figures}. The other is higher by {gain.value:.3f} ± {gain.error:.3f}"
    needed = errors_needed(other.candidate, chosen.candidate)
    if gain.value > needed * gain.error or lost_before:
        return f"{higher}, but lost to a third candidate before."
    enough = "one standard error" if needed == 1 else f"{needed:g} standard errors"
    return f"{higher}, not more than the {enough} that it needs to replace {_what_is_kept(chosen, other)}."


def _what_is_kept(chosen: Judged, other: Judged) -> str:
    if is_tuned(chosen.candidate):
        return "the simpler fine-tuning" if is_tuned(other.candidate) else "fine-tuning, which was asked for"
    if chosen.candidate.encoder not in (RAW, TRAINED):
        return f"{chosen.candidate.encoder}, which was tried first"
    simpler = chosen.candidate.encoder == RAW != other.candidate.encoder
    return "the simpler default" if simpler else "the default"
