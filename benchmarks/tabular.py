"""PU learners on tables: our estimator, the packages pulearn and pu-toolbox, and simple lines, on the same splits.

    pip install pulearn "pu-toolbox[torch]"        # optional; without one its lines say "skipped"
    python benchmarks/tabular.py --seeds 10 --out results/benchmarks/tabular.jsonl

The sets, with the share of the positive training rows that is labelled:

    cancer  breast cancer of scikit-learn, 569 × 30, malignant is positive, 30 %
    wine    wine of scikit-learn, 178 × 13, class 1 is positive, 30 %
    digits  digits of scikit-learn as 64 numbers, 1,797 rows, odd is positive, 30 %
    blobs   4,000 × 20, drawn anew for each seed, 40 % positive, 10 %. Four Gaussian blobs per class in 6 columns,
            unit variance, centres at distance 4 from the origin in random directions, no two less than 45° apart; then
            a categorical column of 4 levels (one-hot) that names the number of the blob within its class in 70 % of
            the rows and is random in the others, so that it tells the classes apart only together with the numbers;
            then noise: 6 normal columns and a categorical one of 4 random levels (one-hot)
    rare    the same with 5 % positive, 20 %

For each seed the rows are split 70/30 by the truth, and the labelled rows are drawn from the positive training rows:
single-set, the other training rows are unlabelled. Every method gets the same split. Rows are standardised on the
training rows for every method but `pucl`, which gets them as they are. Nothing is chosen by test labels. Methods:

    pucl                  pucl.PUClassifier(random_state=seed)
    nnpu_true_prior       linear nnPU (Kiryo et al. 2017), sigmoid loss, with the true π of U: an advantage
    nnpu_estimated        the same with π of pucl.estimate_prior
    naive                 logistic regression, U as negatives
    oracle_logistic/_svc  all true labels; RBF SVC with the defaults of scikit-learn
    pulearn/*             `readme` is the base estimator of its README, SVC(C=10, kernel="rbf", gamma=0.4), `forest`
                          that of its breast cancer example, `scale` the SVC with gamma="scale", our addition, since
                          0.4 is too narrow for standardised rows of many columns. Weighted Elkan-Noto gets the counts
                          of P and U. Its nnPU gets the π of its own ScarEMPriorEstimator, taken from the whole set to
                          U. The Bayesian ones have their defaults
    pu-toolbox/*          every registered classifier that can be built without further arguments, with its defaults;
                          where π is needed, that of its pipeline's default, pen_l1. `auto` is PUPipeline(). The best
                          of them *by test accuracy* is the bar: generous to them, since nobody can choose so

Every set, method and seed is one line of ``--raw``; what is there is not computed again. ``--out`` gets one line per
set and method over all seeds: mean ± std, seconds per fit, and the paired difference to `pucl` with a standard error.
"""

import argparse
import importlib
import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
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
from pucl.bench.provenance import provenance
from pucl.heads import fit_head
from pucl.metrics import evaluate
from pucl.priors.estimate import estimate_prior
from pucl.pseudo_labels import PseudoLabels

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
    """What a method gets; y only where it is said to know the truth."""

    x: Floats
    s: Bools
    seed: int
    y: Bools | None


class SkippedError(Exception):
    """A method that cannot run here, and why."""


Answer = tuple[Bools, Floats]  # decisions and scores of test rows
Method = Callable[[Given], Callable[[Floats], Answer]]


def blobs(seed: int, positive: float) -> tuple[Floats, Bools]:
    rng = np.random.default_rng(seed)
    while True:
        centres = rng.standard_normal((2 * BLOBS, COLUMNS))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        if (centres @ centres.T - np.eye(2 * BLOBS)).max() < math.cos(math.radians(ANGLE)):
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
    """The split of a set and a seed, the same for every method."""
    x, y = table(name, seed)
    x, x_test, y, y_test = train_test_split(x, y, test_size=TEST, stratify=y, random_state=seed)
    positive = np.flatnonzero(y)
    s = np.zeros(len(y), dtype=bool)
    s[np.random.default_rng(seed).permutation(positive)[: round(LABELLED[name] * len(positive))]] = True
    return Split(x, s, y, x_test, y_test)


def scored(model: Any, x: Floats) -> Answer:
    """Decisions and scores of a fitted model in the manner of scikit-learn; positives are 1."""
    found = np.asarray(model.predict(x)).astype(float) > 0
    if hasattr(model, "decision_function"):
        return found, np.asarray(model.decision_function(x), dtype=float).ravel()
    return found, np.asarray(model.predict_proba(x), dtype=float)[:, 1]


def standardised(given: Given, fit: Callable[[Given], Any]) -> Callable[[Floats], Answer]:
    scale = StandardScaler().fit(given.x)
    model = fit(given._replace(x=scale.transform(given.x)))
    return lambda x: scored(model, scale.transform(x))


def peer(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SkippedError(f"{package} cannot be imported ({error})") from None


def ours(given: Given) -> Callable[[Floats], Answer]:
    if not hasattr(pucl, "PUClassifier"):
        raise SkippedError("this pucl has no PUClassifier")
    return partial(scored, pucl.PUClassifier(random_state=given.seed).fit(given.x, given.s.astype(int)))


class LinearNNPU:
    """The linear nnPU head on standardised rows, π given by the truth or estimated."""

    def __init__(self, given: Given) -> None:
        z, s = torch.from_numpy(given.x), torch.from_numpy(given.s)
        constant = torch.full((len(z), 1), z.shape[1] ** 0.5, dtype=z.dtype)  # so that the length of a row counts
        if given.y is not None:
            prior = float(given.y[~given.s].mean())
        else:
            prior = estimate_prior(torch.cat([z, constant], dim=1), given.s, seed=given.seed).value
        unused = PseudoLabels(s, s.double(), s.double(), prior)
        self.scale = z.shape[1] ** -0.5  # the head undoes it
        self.head = fit_head(z * self.scale, given.s, unused, method="nnpu", prior=min(max(prior, 1e-3), 1 - 1e-3))

    def decision_function(self, x: Floats) -> Floats:
        """Logits (n,)."""
        return np.asarray(self.head(torch.from_numpy(x) * self.scale).detach().numpy())

    def predict(self, x: Floats) -> Bools:
        """Whether each row is positive, (n,)."""
        return self.decision_function(x) > 0


def sklearn_model(make: Callable[[], Any], given: Given) -> Any:
    return make().fit(given.x, given.s if given.y is None else given.y)


def base(kind: str, seed: int) -> Any:
    if kind == "forest":
        return RandomForestClassifier(n_estimators=100, random_state=seed)
    return SVC(C=10, kernel="rbf", gamma=0.4 if kind == "readme" else "scale", probability=True, random_state=seed)


def pulearn(kind: str, given: Given) -> Any:
    module = peer("pulearn", "pulearn")
    s, n_p, n_u = given.s.astype(int), int(given.s.sum()), int((~given.s).sum())
    name, _, kind = kind.partition("_")
    if name == "elkanoto":
        model = module.ElkanotoPuClassifier(base(kind, given.seed), hold_out_ratio=0.2, random_state=given.seed)
    elif name == "weighted":
        counts = {"labeled": n_p, "unlabeled": n_u, "hold_out_ratio": 0.2, "random_state": given.seed}
        model = module.WeightedElkanotoPuClassifier(base(kind, given.seed), **counts)
    elif name == "bagging":
        model = module.BaggingPuClassifier(base(kind, given.seed), n_estimators=15, random_state=given.seed)
    elif name == "nnpu":
        whole = module.ScarEMPriorEstimator().estimate(given.x, s).pi
        prior = (whole * (n_p + n_u) - n_p) / n_u
        model = module.NNPUClassifier(prior=min(max(prior, 0.01), 0.99), random_state=given.seed)
    else:
        model = getattr(module, name)()
    return model.fit(given.x, s)


def pu_toolbox(name: str, given: Given) -> Any:
    module = peer("pu_toolbox", "pu-toolbox")
    s = given.s.astype(int)
    if name == "auto":
        return module.PUPipeline(random_state=given.seed).fit_evaluate(given.x, s).final_model
    importlib.import_module("pu_toolbox.registry.builtin_methods").register_all_builtin_methods()
    make = importlib.import_module("pu_toolbox.registry.registry").get_algorithm(name)
    takes, options = inspect.signature(make.__init__).parameters, {}
    if "random_state" in takes:
        options["random_state"] = given.seed
    if not make.requires_class_prior:
        return make(**options).fit(given.x, s)
    prior = module.ClassPriorEstimator().fit(given.x, s).estimate()
    if "class_prior" in takes:
        options["class_prior"] = prior
    return make(**options).fit(given.x, s, class_prior=prior)


PULEARN = [f"{name}_{kind}" for name in ("elkanoto", "weighted", "bagging") for kind in ("readme", "scale", "forest")]
BAYESIAN = [f"{kind}Classifier" for kind in ("PositiveNaiveBayes", "WeightedNaiveBayes", "PositiveTAN", "WeightedTAN")]
TOOLBOX = ("auto", "elkan_noto", "upu", "nnpu", "dist_pu", "pusb", "lbe", "self_pu", "infomax_pu", "llsvm")
SLOW = ("pusb_kernel", "weighted_contrastive_pu")  # of pu-toolbox, 20 s a fit and more
NOT_BUILT = {  # of pu-toolbox: asked for more than defaults
    "pnu": "needs labelled negatives",
    "centroid_pu": "constructor requires flip_probability",
    "kldce": "constructor requires flip_probability",
    "dgpu": "constructor requires a generator",
}
TRUTH = {"nnpu_true_prior", "oracle_logistic", "oracle_svc"}
LOGISTIC = partial(LogisticRegression, max_iter=1000)
METHODS: dict[str, Method] = {
    OURS: ours,
    **{name: partial(standardised, fit=LinearNNPU) for name in ("nnpu_true_prior", "nnpu_estimated")},
    **{name: partial(standardised, fit=partial(sklearn_model, LOGISTIC)) for name in ("naive", "oracle_logistic")},
    "oracle_svc": partial(standardised, fit=partial(sklearn_model, SVC)),
    **{f"pulearn/{kind}": partial(standardised, fit=partial(pulearn, kind)) for kind in (*PULEARN, "nnpu", *BAYESIAN)},
    **{f"pu-toolbox/{name}": partial(standardised, fit=partial(pu_toolbox, name)) for name in (*TOOLBOX, *SLOW)},
}


def judge(method: Method, parts: Split, seed: int, truth: bool) -> Line:
    """Held-out accuracy, F1 and AUC in percent, or the error the method ended with."""
    given = Given(parts.x, parts.s, seed, parts.y if truth else None)
    torch.manual_seed(seed)  # some peers draw from the global generator
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = method(given)
            seconds = time.perf_counter() - began
            found, score = answer(parts.x_test)
            at_cut, ranked = evaluate(parts.y_test, np.where(found, 1.0, -1.0)), evaluate(parts.y_test, score)
    except SkippedError:
        raise
    except Exception as error:  # a peer that fails on a split is a result, not the end of the run
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    values = {"accuracy": at_cut.accuracy, "f1": at_cut.f1, "auc": ranked.auc}
    return {key: round(100 * value, 3) for key, value in values.items()} | {"seconds": round(seconds, 4)}


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def key(config: Mapping[str, Any]) -> tuple[str, str, int]:
    return config["set"], config["method"], config["seed"]


def versions() -> dict[str, str]:
    found = {}
    for name in ("scikit-learn", "numpy", "pulearn", "pu-toolbox"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def compute(raw: Path, sets: list[str], methods: list[str], seeds: range) -> Iterator[tuple[str, str]]:
    """Add what is missing to the raw lines; yields a method and why it was skipped."""
    known = {key(line["config"]) for line in read(raw)}
    where = provenance()
    where["versions"] |= versions()
    skipped: set[str] = set()
    for seed, name in product(seeds, sets):
        left = [method for method in methods if method not in skipped and (name, method, seed) not in known]
        parts = split(name, seed) if left else None
        for method in left:
            if parts is None:
                break
            try:
                metrics = judge(METHODS[method], parts, seed, method in TRUTH)
            except SkippedError as reason:
                skipped.add(method)
                yield method, str(reason)
                continue
            line = {"config": {"set": name, "method": method, "seed": seed}, "metrics": metrics, **where}
            with raw.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def summary(lines: list[Line]) -> list[Line]:
    """One line per set and method: means over seeds, and the difference to `pucl` on the seeds both have."""
    cells: dict[tuple[str, str], dict[int, Line]] = {}
    for line in lines:
        config = line["config"]
        cells.setdefault((config["set"], config["method"]), {})[config["seed"]] = line["metrics"]
    found = []
    for (name, method), by_seed in cells.items():
        well = {seed: metrics for seed, metrics in by_seed.items() if "error" not in metrics}
        metrics: Line = {"seeds": len(by_seed), "errors": len(by_seed) - len(well)}
        for what in ("accuracy", "f1", "auc", "seconds") if well else ():
            values = np.array([one[what] for one in well.values()])
            metrics |= {what: round(float(values.mean()), 3), f"{what}_std": round(float(values.std()), 3)}
        own = cells.get((name, OURS), {})
        both = [seed for seed in well if "accuracy" in own.get(seed, {})]
        if len(both) > 1 and method != OURS:
            difference = np.array([well[seed]["accuracy"] - own[seed]["accuracy"] for seed in both])
            error = difference.std(ddof=1) / math.sqrt(len(both))
            metrics |= {"difference": round(float(difference.mean()), 3), "difference_se": round(float(error), 3)}
        knows = {"knows": "the truth" if "oracle" in method else "the true prior"} if method in TRUTH else {}
        found.append({"config": {"set": name, "method": method, **knows}, "metrics": metrics})
    return found


def show(lines: list[Line], sets: list[str]) -> None:
    print(f"\n{'set':7} {'method':38} seeds  errors  accuracy        F1              AUC             seconds   − pucl")
    for name in sets:
        here = [line for line in lines if line["config"]["set"] == name]
        for line in sorted(here, key=lambda line: -line["metrics"].get("accuracy", -1)):
            m, config = line["metrics"], line["config"]
            start = f"{name:7} {config['method']:38} {m['seeds']:5}  {m['errors']:6}"
            if "accuracy" not in m:
                print(start)
                continue
            shown = "  ".join(f"{m[what]:6.2f} ± {m[what + '_std']:5.2f}" for what in ("accuracy", "f1", "auc"))
            gap = f"{m['difference']:+7.2f} ± {m['difference_se']:.2f}" if "difference" in m else ""
            knows = f"  knows {config['knows']}" if "knows" in config else ""
            print(f"{start}  {shown}  {m['seconds']:8.3f}  {gap}{knows}")
        bar = [line for line in here if line["config"]["method"].startswith("pu-toolbox/")]
        if bar := [line for line in bar if "accuracy" in line["metrics"]]:
            best = max(bar, key=lambda line: line["metrics"]["accuracy"])
            print(f"{name:7} the bar, best of pu-toolbox by test accuracy: {best['config']['method']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them; 100 and more are for development")
    parser.add_argument("--sets", nargs="+", choices=list(LABELLED), default=list(LABELLED))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="all but the slow ones of pu-toolbox")
    parser.add_argument("--raw", type=Path, default=Path("results/tabular-seeds.jsonl"))
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/tabular.jsonl"))
    options = parser.parse_args()
    methods = options.methods or [name for name in METHODS if name.rpartition("/")[2] not in SLOW]
    for path in (options.raw, options.out):
        path.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    seeds = range(options.first, options.first + options.seeds)
    for name, reason in compute(options.raw, options.sets, methods, seeds):
        print(f"{name} skipped: {reason}", flush=True)
    for name, reason in NOT_BUILT.items():
        print(f"pu-toolbox/{name} skipped: {reason}")
    wanted = {(name, method, seed) for name, method, seed in product(options.sets, methods, seeds)}
    found = summary([line for line in read(options.raw) if key(line["config"]) in wanted])
    where = provenance()
    where["versions"] |= versions()
    lines = [{**line, "seeds": [seeds.start, seeds.stop - 1], **where} for line in found]
    options.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    show(found, options.sets)


if __name__ == "__main__":
    main()
