"""PU learners on tables: our estimator, the packages pulearn and pu-toolbox, and simple lines, on the same splits.

    pip install pulearn "pu-toolbox[torch]"        # optional; without one its lines say "skipped"
    python studies/tabular.py --seeds 10 --out results/studies/tabular.jsonl

The sets, with the share of the positive training rows that is labelled:

    cancer  breast cancer of scikit-learn, 569 × 30, malignant is positive, 30 %
    wine    wine of scikit-learn, 178 × 13, class 1 is positive, 30 %
    digits  digits of scikit-learn as 64 numbers, 1,797 rows, odd is positive, 30 %
    blobs   4,000 × 20, drawn anew for each seed, 40 % positive, 10 %. Four Gaussian blobs per class in 6 columns, unit
            variance, centres at distance 4 from the origin, in random directions at least 45° apart. A one-hot
            category of 4 levels names the blob within its class in 70 % of the rows and is random in the others: of
            itself it says nothing. The rest is noise: 6 normal columns and a category of 4 levels
    rare    the same with 5 % positive, 20 %; look at F1, since 95 % of the rows are negative

For each seed rows are split 70/30 by the truth; the labelled ones are drawn from the positive training rows, the others
are unlabelled (single-set). Every method gets the same split, standardised on the training rows; `pucl` gets the rows
as they are. Nothing is chosen by test labels. Methods:

    pucl             pucl.PUClassifier(random_state=seed)
    nnpu_true_prior  linear nnPU (Kiryo et al. 2017), sigmoid loss, with the true π of U: an advantage
    nnpu_estimated   the same with π of pucl.estimate_prior
    naive, oracle_*  logistic regression with U as negatives; with all true labels, or an RBF SVC with its defaults
    pulearn/*        base estimators: `readme` of its README, SVC(C=10, gamma=0.4), `forest` of its breast cancer
                     example, `scale` our addition, the SVC with gamma="scale", since 0.4 is narrow for many columns.
                     Its nnPU gets π of its ScarEMPriorEstimator, taken from the whole set to U
    pu-toolbox/*     every registered classifier that its defaults can build; π, where needed, by the default of its
                     pipeline, pen_l1. `auto` is PUPipeline(). The best *by test accuracy* is the bar: generous to them

Every set, method and seed is one line of ``--raw``; what is there is not computed again. ``--out`` gets one line per
set and method over these seeds: mean ± std, seconds per fit, the paired difference to `pucl` with a standard error.
"""

import argparse
import importlib
import inspect
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import pucl
from pucl.bench.run.provenance import provenance
from pucl.heads import fit_head
from pucl.metrics import evaluate
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.prior import estimate_prior

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Line = dict[str, Any]
OURS = "pucl"
TEST = 0.3
LABELLED = {"cancer": 0.3, "wine": 0.3, "digits": 0.3, "blobs": 0.1, "rare": 0.2}
POSITIVE = {"blobs": 0.4, "rare": 0.05}
ROWS, BLOBS, COLUMNS, NOISE, LEVELS, RADIUS, ANGLE = 4000, 4, 6, 6, 4, 4.0, 45


class Split(NamedTuple):
    """Training rows with s and the truth y, test rows with theirs."""

    x: Floats
    s: Bools
    y: Bools
    x_test: Floats
    y_test: Bools


class Given(NamedTuple):
    """What a method gets."""

    x: Floats
    s: Bools
    seed: int
    y: Bools | None  # only where a method is said to know it


class SkippedError(Exception):
    """A method cannot run here, and why."""


Answer = tuple[Bools, Floats]  # decisions and scores of test rows
Method = Callable[[Given], Callable[[Floats], Answer]]


def blobs(seed: int, positive: float) -> tuple[Floats, Bools]:
    rng = np.random.default_rng(seed)
    while True:
        centres = rng.standard_normal((2 * BLOBS, COLUMNS))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        if (centres @ centres.T - np.eye(2 * BLOBS)).max() < np.cos(np.radians(ANGLE)):
            break
    y = np.arange(ROWS) < round(positive * ROWS)
    blob = rng.integers(BLOBS, size=ROWS)
    numbers = RADIUS * centres[blob + BLOBS * y] + rng.standard_normal((ROWS, COLUMNS))
    level = np.where(rng.random(ROWS) < 0.7, blob % LEVELS, rng.integers(LEVELS, size=ROWS))
    noise = rng.standard_normal((ROWS, NOISE)), np.eye(LEVELS)[rng.integers(LEVELS, size=ROWS)]
    return np.hstack([numbers, np.eye(LEVELS)[level], *noise]), y


def table(name: str, seed: int) -> tuple[Floats, Bools]:
    if name in POSITIVE:
        return blobs(seed, POSITIVE[name])
    x, y = {"cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    return x, {"cancer": y == 0, "wine": y == 1, "digits": y % 2 == 1}[name]


def split(name: str, seed: int) -> Split:
    x, y = table(name, seed)
    x, x_test, y, y_test = train_test_split(x, y, test_size=TEST, stratify=y, random_state=seed)
    positive = np.flatnonzero(y)
    s = np.zeros(len(y), dtype=bool)
    s[np.random.default_rng(seed).permutation(positive)[: round(LABELLED[name] * len(positive))]] = True
    return Split(x, s, y, x_test, y_test)


def scored(model: Any, x: Floats) -> Answer:
    """Decisions and scores of a fitted model in the manner of scikit-learn; positives are 1."""
    by_score = hasattr(model, "decision_function")
    score = np.asarray(model.decision_function(x) if by_score else model.predict_proba(x)[:, 1], dtype=float).ravel()
    return np.asarray(model.predict(x)).astype(float) > 0, score


def standardised(given: Given, fit: Callable[[Given], Any]) -> Callable[[Floats], Answer]:
    scale = StandardScaler().fit(given.x)
    model = fit(given._replace(x=scale.transform(given.x)))
    return lambda x: scored(model, scale.transform(x))


def peer(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SkippedError(f"{module} cannot be imported ({error})") from None


def ours(given: Given) -> Callable[[Floats], Answer]:
    if not hasattr(pucl, "PUClassifier"):
        raise SkippedError("this pucl has no PUClassifier")
    return partial(scored, pucl.PUClassifier(random_state=given.seed).fit(given.x, given.s.astype(int)))


def linear_nnpu(given: Given) -> Any:
    z, s = torch.from_numpy(given.x), torch.from_numpy(given.s)
    if given.y is not None:
        prior = float(given.y[~given.s].mean())
    else:
        constant = torch.full((len(z), 1), z.shape[1] ** 0.5, dtype=z.dtype)  # so that the length of a row counts
        prior = estimate_prior(torch.cat([z, constant], dim=1), given.s, seed=given.seed).value
    said = PseudoLabels(s, s.double(), s.double(), min(max(prior, 1e-3), 1 - 1e-3))  # only π is used
    scale = z.shape[1] ** -0.5  # the head undoes it
    head = fit_head(z * scale, given.s, said, method="nnpu")

    def logits(x: Floats) -> Floats:
        return np.asarray(head(torch.from_numpy(x) * scale).detach().numpy())

    return SimpleNamespace(decision_function=logits, predict=lambda x: logits(x) > 0)


def logistic(given: Given) -> Any:
    return LogisticRegression(max_iter=1000).fit(given.x, given.s if given.y is None else given.y)


def base(kind: str, seed: int) -> Any:
    if kind == "forest":
        return RandomForestClassifier(n_estimators=100, random_state=seed)
    return SVC(C=10, kernel="rbf", gamma=0.4 if kind == "readme" else "scale", probability=True, random_state=seed)


def pulearn(kind: str, given: Given) -> Any:
    module = peer("pulearn")
    s, n_p, n_u = given.s.astype(int), int(given.s.sum()), int((~given.s).sum())
    name, _, kind = kind.partition("_")
    wrap = {
        "elkanoto": partial(module.ElkanotoPuClassifier, hold_out_ratio=0.2),
        "weighted": partial(module.WeightedElkanotoPuClassifier, labeled=n_p, unlabeled=n_u, hold_out_ratio=0.2),
        "bagging": partial(module.BaggingPuClassifier, n_estimators=15),
    }
    if name in wrap:
        return wrap[name](base(kind, given.seed), random_state=given.seed).fit(given.x, s)
    if name == "nnpu":
        prior = (module.ScarEMPriorEstimator().estimate(given.x, s).pi * len(s) - n_p) / n_u
        return module.NNPUClassifier(prior=min(max(prior, 0.01), 0.99), random_state=given.seed).fit(given.x, s)
    return getattr(module, name)().fit(given.x, s)


def pu_toolbox(name: str, given: Given) -> Any:
    module = peer("pu_toolbox")
    s = given.s.astype(int)
    if name == "auto":
        return module.PUPipeline(random_state=given.seed).fit_evaluate(given.x, s).final_model
    importlib.import_module("pu_toolbox.registry.builtin_methods").register_all_builtin_methods()
    make = importlib.import_module("pu_toolbox.registry.registry").get_algorithm(name)
    takes, could = inspect.signature(make.__init__).parameters, {"random_state": given.seed}
    if make.requires_class_prior:
        could["class_prior"] = module.ClassPriorEstimator().fit(given.x, s).estimate()
    model = make(**{name: value for name, value in could.items() if name in takes})
    return model.fit(given.x, s, class_prior=could.get("class_prior"))


PULEARN = [f"{name}_{kind}" for name in ("elkanoto", "weighted", "bagging") for kind in ("readme", "scale", "forest")]
BAYESIAN = [f"{kind}Classifier" for kind in ("PositiveNaiveBayes", "WeightedNaiveBayes", "PositiveTAN", "WeightedTAN")]
TOOLBOX = ("auto", "elkan_noto", "upu", "nnpu", "dist_pu", "pusb", "lbe", "self_pu", "infomax_pu", "llsvm")
SLOW = ("pusb_kernel", "weighted_contrastive_pu")  # of pu-toolbox, 20 s a fit and more
NEEDS = {"pnu": "negatives", "centroid_pu": "flip_probability", "kldce": "flip_probability", "dgpu": "generator"}
TRUTH = {"nnpu_true_prior": "the true prior", "oracle_logistic": "the truth", "oracle_svc": "the truth"}
METHODS: dict[str, Method] = {
    OURS: ours,
    **{name: partial(standardised, fit=linear_nnpu) for name in ("nnpu_true_prior", "nnpu_estimated")},
    **{name: partial(standardised, fit=logistic) for name in ("naive", "oracle_logistic")},
    "oracle_svc": partial(standardised, fit=lambda given: SVC().fit(given.x, given.y)),
    **{f"pulearn/{kind}": partial(standardised, fit=partial(pulearn, kind)) for kind in (*PULEARN, "nnpu", *BAYESIAN)},
    **{f"pu-toolbox/{name}": partial(standardised, fit=partial(pu_toolbox, name)) for name in (*TOOLBOX, *SLOW)},
}


def judge(method: Method, parts: Split, seed: int, truth: bool) -> Line:
    """Held-out accuracy, F1 and AUC in percent, or the error the method ended with."""
    given = Given(parts.x, parts.s, seed, parts.y if truth else None)
    torch.manual_seed(seed)  # some peers draw from the global generator
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(action="ignore"):
            answer = method(given)
            seconds = time.perf_counter() - began
            predicted, score = answer(parts.x_test)
            at_cut, ranked = evaluate(parts.y_test, np.where(predicted, 1.0, -1.0)), evaluate(parts.y_test, score)
    except SkippedError:
        raise
    except Exception as error:  # a peer that fails on a split is a result, not the end of the run
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    values = {"accuracy": 100 * at_cut.accuracy, "f1": 100 * at_cut.f1, "auc": 100 * ranked.auc, "seconds": seconds}
    return {key: round(value, 4) for key, value in values.items()}


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def where() -> Line:
    origin = vars(provenance())
    for name in ("scikit-learn", "pulearn", "pu-toolbox"):
        with suppress(PackageNotFoundError):
            origin["versions"][name] = version(name)
    return origin


def compute(raw: Path, sets: list[str], methods: list[str], seeds: range) -> Iterator[tuple[str, str]]:
    """Add what is missing to the raw lines; yields a method and why it was skipped."""
    known = [line["config"] for line in read(raw) if "error" not in line["metrics"]]  # a failure is tried again
    about, skipped = where(), set()
    for seed, name, method in product(seeds, sets, methods):
        config = {"set": name, "method": method, "seed": seed}
        if method in skipped or config in known:
            continue
        try:
            metrics = judge(METHODS[method], split(name, seed), seed, method in TRUTH)
        except SkippedError as reason:
            skipped.add(method)
            yield method, str(reason)
            continue
        with raw.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"config": config, "metrics": metrics, **about}) + "\n")


def summary(lines: list[Line]) -> list[Line]:
    """One line per set and method: means over seeds, and the difference to `pucl` on the seeds both have."""
    cells: dict[tuple[str, str], dict[int, Line]] = {}
    for line in lines:
        config = line["config"]
        cells.setdefault((config["set"], config["method"]), {})[config["seed"]] = line["metrics"]
    rows = []
    for (name, method), by_seed in cells.items():
        well = {seed: metrics for seed, metrics in by_seed.items() if "error" not in metrics}
        metrics: Line = {"seeds": len(by_seed), "errors": len(by_seed) - len(well)}
        for metric in ("accuracy", "f1", "auc", "seconds") if well else ():
            values = np.array([run[metric] for run in well.values()])
            metrics |= {metric: round(float(values.mean()), 3), f"{metric}_std": round(float(values.std()), 3)}
        own = cells.get((name, OURS), {})
        both = [seed for seed in well if "accuracy" in own.get(seed, {})]
        if len(both) > 1 and method != OURS:
            difference = np.array([well[seed]["accuracy"] - own[seed]["accuracy"] for seed in both])
            error = difference.std(ddof=1) / len(both) ** 0.5
            metrics |= {"difference": round(float(difference.mean()), 3), "difference_se": round(float(error), 3)}
        knows = {"knows": TRUTH[method]} if method in TRUTH else {}
        rows.append({"config": {"set": name, "method": method, **knows}, "metrics": metrics})
    return rows


def show(lines: list[Line]) -> None:
    print(f"\n{'set':7} {'method':38} seeds  errors  accuracy        F1              AUC             seconds   − pucl")
    for name in LABELLED:
        of_set = [line for line in lines if line["config"]["set"] == name]
        of_set.sort(key=lambda line: -line["metrics"].get("accuracy", -1))
        bar = next((line for line in of_set if line["config"]["method"].startswith("pu-toolbox/")), None)
        for line in of_set:
            m, config = line["metrics"], line["config"]
            start = f"{name:7} {config['method']:38} {m['seeds']:5}  {m['errors']:6}"
            figures = ("accuracy", "f1", "auc") if "accuracy" in m else ()
            shown = "  ".join(f"{m[metric]:6.2f} ± {m[metric + '_std']:5.2f}" for metric in figures)
            gap = f"{m['difference']:+7.2f} ± {m['difference_se']:.2f}" if "difference" in m else ""
            note = f"  knows {config['knows']}" if "knows" in config else "  the bar" if line is bar else ""
            print(f"{start}  {shown}  {m.get('seconds', 0):8.3f}  {gap}{note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them; 100 and more are for development")
    parser.add_argument("--sets", nargs="+", choices=list(LABELLED), default=list(LABELLED))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="all but the slow ones of pu-toolbox")
    parser.add_argument("--raw", type=Path, default=Path("results/tabular-seeds.jsonl"))
    parser.add_argument("--out", type=Path, default=Path("results/studies/tabular.jsonl"))
    options = parser.parse_args()
    methods = options.methods or [name for name in METHODS if name.rpartition("/")[2] not in SLOW]
    for path in (options.raw, options.out):
        path.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    seeds = range(options.first, options.first + options.seeds)
    for name, reason in compute(options.raw, options.sets, methods, seeds):
        print(f"{name} skipped: {reason}", flush=True)
    for name, missing in NEEDS.items():
        print(f"pu-toolbox/{name} skipped: its defaults cannot build it, it needs {missing}")
    rows = summary([line for line in read(options.raw) if line["config"]["seed"] in seeds])
    about = {"seeds": [seeds.start, seeds.stop - 1], **where()}
    options.out.write_text("".join(json.dumps({**line, **about}) + "\n" for line in rows), encoding="utf-8")
    show(rows)


if __name__ == "__main__":
    main()
