"""The review loop with a truthful reviewer: accuracy and F1 by round, by how the rows are picked.

Rows are split 70/30. A share of the positive training rows is labelled at random. In every round a strategy picks 20 of
the other training rows, the reviewer answers with the truth, and the model is fitted again with all answers so far; on
the images its encoder is trained in the first round only. Test rows serve for the figures alone.

    python studies/review.py run --seeds 0 1 > results/studies/review.jsonl
    python studies/review.py table results/studies/review.jsonl
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.bench.tables.measure import split
from pucl.bench.tables.sets import table
from pucl.data.digits import digits
from pucl.fitting.fit import fit
from pucl.fitting.gather import gather
from pucl.fitting.plan import FitOptions
from pucl.fitting.start import Start
from pucl.metrics import evaluate
from pucl.models.model import Model
from pucl.models.schema import learn_schema
from pucl.review.picking import pick
from pucl.review.strategies import STRATEGIES
from pucl.selection.scores import PUScores

Bools = NDArray[np.bool_]
TABLES = ("german", "pima", "segment0", "vehicle1", "yeast1")
IMAGES = "digits"
SHARE, ROUNDS, N = 0.2, 10, 20  # of the positives labelled; rounds, and answers in each
SHOWN = (0, 1, 3, 5, 10)  # rounds of the printed table


@dataclass(frozen=True)
class Task:
    """Training rows as a model takes them, s and the truth; test rows and theirs."""

    name: str
    model: Model  # of the first round
    rows: Tensor
    s: Bools
    y: Bools
    test: Tensor
    y_test: Bools
    options: FitOptions


def tasks(names: list[str], seed: int, *, known: bool) -> Iterator[Task]:
    """Every task with the model of its first round; `known` gives the fit π, the share of positives in U."""
    for name in names:
        if name == IMAGES:
            data = digits(seed=seed)
            x, y, test, y_test = data.x_train, data.y_train, data.x_test, data.y_test
            positive = np.random.default_rng(seed).permutation(np.flatnonzero(y))
            s = np.zeros(len(y), dtype=bool)
            s[positive[: round(SHARE * len(positive))]] = True
        else:
            x, s, y, test, y_test = split(*table(name), SHARE, seed)
        schema, rows = learn_schema(x)
        options = FitOptions(seed=seed, prior=float(y[~s].mean()) if known else None)
        fitted = fit(rows, s, schema, options)
        model = replace(fitted.model, evidence=gather(fitted, rows, s))
        yield Task(name, model, rows, s, y, schema.rows(test), y_test, options)


def rounds(task: Task, strategy: str, seed: int) -> Iterator[dict[str, Any]]:
    """The figures of every round."""
    answers = np.full(len(task.y), np.nan)
    evidence = task.model.evidence
    shown = None if evidence is None else evidence.shown
    start = None if shown is None else Start(task.model, shown)
    model, began = task.model, time.process_time()
    for number in range(ROUNDS + 1):
        if number:
            known = task.s | np.isfinite(answers)
            logits = model.logits(task.rows).double().numpy()
            picks = pick(strategy, N, logits, model.embed(task.rows), ~known, known, seed=1000 * seed + number)
            asked = [each.row for each in picks]
            answers[asked] = task.y[asked]
            model = fit(task.rows, task.s, model.schema, task.options, answers=answers, start=start).model
        yield {
            "task": task.name, "strategy": strategy, "seed": seed, "prior_known": task.options.prior is not None,
            "round": number, **figures(task, model),
            "answers": int(np.isfinite(answers).sum()), "yes": int(np.nansum(answers)),
            "cpu": round(time.process_time() - began, 2),
        }  # fmt: skip


def figures(task: Task, model: Model) -> dict[str, Any]:
    """What the model does on test rows, and what it says of U beside the truth of U."""
    found = evaluate(task.y_test, model.logits(task.test))
    called, free = (model.logits(task.rows) > 0).numpy(), ~task.s
    record = model.record
    promised = record.metrics.precision.value if isinstance(record.metrics, PUScores) else None
    return {
        "accuracy": round(found.accuracy, 4), "f1": round(found.f1, 4), "auc": round(found.auc, 4),
        "prior": round(record.prior.value, 4), "bound": record.prior.is_bound,
        "true_prior": round(task.y[free].mean(), 4),
        "precision": round(float((task.y & called & free).sum() / max(1, (called & free).sum())), 4),
        "promised": None if promised is None else round(promised, 4),
    }  # fmt: skip


def summary(lines: list[dict[str, Any]]) -> str:
    """Means over the seeds by task, strategy and round, as a table for the log."""
    shown = []

    def key(line: dict[str, Any]) -> tuple[Any, ...]:
        return line["task"], line["prior_known"], line["strategy"], line["round"]

    kinds = dict.fromkeys((line["task"], line["prior_known"]) for line in lines)
    for task, known in kinds:
        for measure in ("accuracy", "f1", "auc"):
            of_prior = ", π known" if known else ""
            shown.append(f"\n{task}{of_prior}, {measure}\n\n| strategy | {' | '.join(f'round {k}' for k in SHOWN)} |")
            shown.append("|---|" + "---|" * len(SHOWN))
            for strategy in STRATEGIES:
                values = [[x[measure] for x in lines if key(x) == (task, known, strategy, k)] for k in SHOWN]
                if values[0]:
                    shown.append(f"| {strategy} | {' | '.join(f'{np.mean(each):.3f}' for each in values if each)} |")
    return "\n".join(shown)


def main() -> None:
    """Run the study, or print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("--seeds", type=int, nargs="+", default=[0])
    run.add_argument("--tasks", nargs="+", default=[*TABLES, IMAGES])
    run.add_argument("--known", action="store_true", help="give the fits the true share of positives in U")
    run.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    verbs.add_parser("table").add_argument("file", type=Path)
    given = parser.parse_args()
    if given.verb == "table":
        lines = [json.loads(line) for line in given.file.read_text(encoding="utf-8").splitlines()]
        sys.stdout.write(f"{summary(lines)}\n")
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for seed in given.seeds:
        for task in tasks(given.tasks, seed, known=given.known):
            for strategy in given.strategies:
                for line in rounds(task, strategy, seed):
                    sys.stdout.write(f"{json.dumps(line)}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
