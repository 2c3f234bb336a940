"""One fit on one split of a table, and everything that is known of it with the truth at hand.

Rows are split 70/30 by the truth. A share of the positive training rows is drawn at random and labelled, all other
training rows are unlabelled; π is the share of positives among those. Every method gets the same rows; none sees test
rows, and the truth goes only to those whose entry says so.
"""

import time
import warnings
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from pucl.bench.run.exam import SkipError
from pucl.bench.tables.interface import Bools, Fitted, Floats, Given, Method, Prior
from pucl.bench.tables.line import Measures, WeighedPrior
from pucl.bench.tables.methods import study_scores
from pucl.metrics import evaluate
from pucl.numerics.threads import threads_for

TEST, FEWEST = 0.3, 10


class TooFewError(SkipError):
    """A labelled share of a table that leaves fewer than `FEWEST` labelled rows."""


class Split(NamedTuple):
    """Training rows with s and the truth y, test rows with theirs."""

    x: Floats
    s: Bools
    y: Bools
    x_test: Floats
    y_test: Bools


def split(x: Floats, y: Bools, share: float, seed: int) -> Split:
    """Training and test rows, and s drawn completely at random from the positive training rows."""
    x, x_test, y, y_test = train_test_split(x, y, test_size=TEST, stratify=y, random_state=seed)
    positive = np.flatnonzero(y)
    labelled = round(share * len(positive))
    if labelled < FEWEST:
        raise TooFewError(f"{labelled} labelled rows of {len(positive)} positive ones are fewer than {FEWEST}")
    s = np.zeros(len(y), dtype=bool)
    s[np.random.default_rng(seed).permutation(positive)[:labelled]] = True
    return Split(x, s, y, x_test, y_test)


def judge(method: Method, parts: Split, seed: int) -> Measures | str:
    """The measures of one fit on one thread, or the error it ended with."""
    given = Given(parts.x, parts.s, seed, parts.y if method.knows else None)
    silent = warnings.catch_warnings(action="ignore")
    try:
        with silent, torch.random.fork_rng(devices=[]), threads_for(0), threadpool_limits(1):
            torch.manual_seed(seed)  # some peers draw from the global generator
            began = time.process_time()
            fitted = method.fit(given)
            seconds = time.process_time() - began
            return measures(parts, seed, fitted, seconds)
    except SkipError:
        raise
    except Exception as error:  # a peer that fails on a split is a result, not the end of the run
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def measures(parts: Split, seed: int, fitted: Fitted, seconds: float) -> Measures:
    """Everything that is known of one fit with the truth at hand."""
    found, score = fitted.answer(parts.x_test)
    truth_u = parts.y[~parts.s]
    pi = float(truth_u.mean())
    top = np.zeros(len(score), dtype=bool)
    top[np.argsort(-score, kind="stable")[: parts.y_test.sum()]] = True
    at_cut, at_share = (evaluate(parts.y_test, np.where(cut, 1.0, -1.0)) for cut in (found, top))
    said, pu_auc, tails = ({}, None, ()) if fitted.own is None else study_scores(fitted.own, parts.s, seed)
    return Measures(
        cpu_seconds=round(seconds, 3), auc=evaluate(parts.y_test, score).auc, f1=at_cut.f1, accuracy=at_cut.accuracy,
        f1_at_share=at_share.f1, rows=len(parts.x), columns=parts.x.shape[1], labelled=int(parts.s.sum()), pi=pi,
        pu_auc=pu_auc, tails=tails, priors={name: weigh(prior, pi) for name, prior in (fitted.priors | said).items()},
        choices=fitted.choices, promised=fitted.promised,
        true=truth_on_u(parts, fitted) if fitted.promised else {},
    )  # fmt: skip


def truth_on_u(parts: Split, fitted: Fitted) -> dict[str, float]:
    """Recall, precision and accuracy of the decisions on the unlabelled training rows; 0 where there are no rows."""
    truth, found = parts.y[~parts.s], fitted.answer(parts.x[~parts.s])[0]
    recall, precision = (float(part.mean()) if len(part) else 0.0 for part in (found[truth], truth[found]))
    return {"recall": recall, "precision": precision, "accuracy": float((truth == found).mean())}


def weigh(prior: Prior, pi: float) -> WeighedPrior:
    """A π̂ next to the truth."""
    value, low, high, is_bound = prior
    if not isfinite(value):
        raise ValueError(f"an estimate of π that is {value}")
    error = abs(value - pi)
    if low is None or high is None:
        return WeighedPrior(value, error, is_bound=is_bound)
    return WeighedPrior(value, error, low, high, bool(low <= pi <= high), bool(pi <= high), is_bound)
