"""PU methods for tables by name, from simple peers to the supervised ceiling."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pucl.bench.tables.interface import Answer, Bools, Fitted, Floats, Given, Method, Prior, imported
from pucl.estimators.classifier import PUClassifier
from pucl.numerics.auc import auc
from pucl.priors.bbe import bbe
from pucl.priors.dedpul import dedpul
from pucl.priors.elkan_noto import elkan_noto

TREES, FOLDS, RESAMPLES = 200, 5, 20
TAILS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


def logistic(**options: Any) -> Any:
    """Logistic regression on standardised columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, **options))


def boosted(seed: int, **options: Any) -> Any:
    """Boosted trees of scikit-learn."""
    return HistGradientBoostingClassifier(random_state=seed, **options)


def probability(model: Any, x: Floats) -> Floats:
    """Of the second class."""
    return np.asarray(model.predict_proba(x)[:, 1])


def out_of_fold(model: Any, given: Given) -> Floats:
    """The chance of a label of every training row, by models that did not see the row."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=given.seed)
    return np.asarray(cross_val_predict(model, given.x, given.s, cv=folds, method="predict_proba")[:, 1])


def at_half(score: Callable[[Floats], Floats]) -> Callable[[Floats], Answer]:
    """Decisions at a score of 0.5."""

    def answer(x: Floats) -> Answer:
        values = score(x)
        return values > 0.5, values

    return answer


def study_scores(score: Floats, s: Bools, seed: int) -> tuple[dict[str, Prior], float, tuple[float, ...]]:
    """What out-of-fold scores say: π̂ of BBE and of DEDPUL (with an interval by resampling), AUC of P against U, tails.

        tail(a) = q_U(c) / q_P(c),   q_P(c) ≥ a

    where q(c) is the share of rows that score c or more; tails are given for every a in `TAILS`.
    """
    p, u = np.sort(score[s]), np.sort(score[~s])
    by_bins = bbe(p, u)
    rng = np.random.default_rng(seed)
    again = [dedpul(rng.choice(p, len(p)), rng.choice(u, len(u))).value for _ in range(RESAMPLES)]
    low, high = (float(q) for q in np.quantile(again, [0.05, 0.95]))
    at = np.quantile(p, 1 - np.array(TAILS), method="higher")
    q_p, q_u = (1 - np.searchsorted(part, at, side="left") / len(part) for part in (p, u))
    priors: dict[str, Prior] = {
        "bbe": Prior(by_bins.value, by_bins.low, by_bins.high),
        "dedpul": Prior(dedpul(p, u).value, low, high),
    }
    return priors, float(auc(p, u)[0]), tuple(round(float(t), 4) for t in q_u / q_p)


def bag_of_trees(given: Given, columns: str | None) -> tuple[Callable[[Floats], Floats], Floats]:
    """A score of new rows and the out-of-bag score of the training rows.

    Each tree sees n_P rows of P and n_P rows of U, both drawn with replacement; a score is the mean vote.
    """
    rng = np.random.default_rng(given.seed)
    p, u = np.flatnonzero(given.s), np.flatnonzero(~given.s)
    trees, votes, counts = [], np.zeros(len(given.s)), np.zeros(len(given.s))
    for _ in range(TREES):
        rows = np.r_[rng.choice(p, len(p)), rng.choice(u, len(p))]
        tree = DecisionTreeClassifier(max_features=columns, random_state=int(rng.integers(2**31)))
        trees.append(tree.fit(given.x[rows], given.s[rows]))
        outside = np.ones(len(given.s), dtype=bool)
        outside[rows] = False
        votes[outside] += probability(tree, given.x[outside])
        counts[outside] += 1
    return lambda x: np.mean([probability(tree, x) for tree in trees], axis=0), votes / np.maximum(counts, 1)


def bag(given: Given, *, columns: str | None) -> Fitted:
    """Bagged trees on P against as many rows of U (Mordelet & Vert 2014), see `bag_of_trees`."""
    score, own = bag_of_trees(given, columns)
    return Fitted(at_half(score), own)


def bag_and_logistic(given: Given) -> Fitted:
    """The mean of two ranks among U: of a bag of trees and of a logistic regression."""
    by_trees, own_trees = bag_of_trees(given, "sqrt")
    model = logistic(class_weight="balanced")
    own_line = out_of_fold(model, given)
    model.fit(given.x, given.s)
    among = [np.sort(own[~given.s]) for own in (own_trees, own_line)]

    def mean_rank(first: Floats, second: Floats) -> Floats:
        sides = [
            np.searchsorted(u, score, side=side) / len(u)
            for u, score in zip(among, (first, second), strict=True)
            for side in ("left", "right")
        ]
        return np.asarray(np.mean(sides, axis=0))

    threshold = mean_rank(np.array([0.5]), np.array([0.5]))[0]

    def answer(x: Floats) -> Answer:
        score = mean_rank(by_trees(x), probability(model, x))
        return score > threshold, score

    return Fitted(answer, mean_rank(own_trees, own_line))


def against_unlabelled(given: Given, *, make: Callable[[int], Any]) -> Fitted:
    """A classifier of P against U, or of positives against negatives if the truth is given."""
    model = make(given.seed).fit(given.x, given.s if given.y is None else given.y)
    return Fitted(at_half(partial(probability, model)))


def elkan_noto_logistic(given: Given) -> Fitted:
    """p(y = 1 | x) = g(x) / c, where g is the chance of a label and c its mean over out-of-fold labelled rows."""
    own = out_of_fold(logistic(), given)
    model, c = logistic().fit(given.x, given.s), own[given.s].mean()
    prior = elkan_noto(own[given.s], own[~given.s]).value
    return Fitted(at_half(lambda x: probability(model, x) / c), priors={"elkan_noto": Prior(prior)})


def boosted_at_true_prior(given: Given) -> Fitted:
    """Boosted trees on U weighted as positive by w and as negative by 1 − w (Elkan & Noto 2008) at the true π.

        w(x) = (1 − c)/c · g(x)/(1 − g(x)) within [0, 1],   c = n_P / (n_P + π n_U)

    where g is the chance of a label by boosted trees, out of fold.
    """
    g, u = np.clip(out_of_fold(boosted(given.seed), given), 1e-6, 1 - 1e-6), ~given.s
    odds = (given.y[u].sum() if given.y is not None else 0) / given.s.sum()  # (1 − c) / c
    w = np.clip(odds * g[u] / (1 - g[u]), 0, 1)
    x, y = np.vstack([given.x, given.x[u]]), np.r_[np.ones(len(u), dtype=bool), np.zeros(u.sum(), dtype=bool)]
    weights = np.ones(len(u))
    weights[u] = w
    model = boosted(given.seed).fit(x, y, sample_weight=np.r_[weights, 1 - w])
    return Fitted(at_half(partial(probability, model)))


def ours(given: Given) -> Fitted:
    """`PUClassifier` as it is: nothing set but the seed and the device, so that it uses what its peers use."""
    model = PUClassifier(random_state=given.seed, device="cpu").fit(given.x, given.s.astype(int))

    def answer(x: Floats) -> Answer:
        score = model.decision_function(x)
        return score > 0, score

    says = {"recall": "recall", "precision": "precision", "accuracy": "proxy_accuracy"}
    promised = {what: model.scores_[name]["value"] for what, name in says.items() if name in model.scores_}
    choices = {name: str(value) for name, value in model.choices_.items()}
    prior = Prior(model.prior_, *model.prior_interval_, is_bound=bool(model.prior_is_bound_))
    return Fitted(answer, priors={"pucl": prior}, promised=promised, choices=choices)


def of_pulearn(given: Given, *, kind: str) -> Fitted:
    """A method of pulearn on standardised columns."""
    module, seed, n_p = imported("pulearn"), given.seed, int(given.s.sum())
    bagging = partial(module.BaggingPuClassifier, max_samples=n_p, random_state=seed)
    model = {
        "bagging_svc": lambda: bagging(SVC(C=10, probability=True, random_state=seed), n_estimators=15),
        "bagging_trees": lambda: bagging(DecisionTreeClassifier(random_state=seed), n_estimators=100),
        "elkanoto_forest": lambda: module.ElkanotoPuClassifier(
            RandomForestClassifier(random_state=seed), hold_out_ratio=0.2, random_state=seed
        ),
    }[kind]()
    scale = StandardScaler().fit(given.x)
    model.fit(scale.transform(given.x), given.s.astype(int))
    return Fitted(at_half(lambda x: probability(model, scale.transform(x))))


def of_pu_toolbox(given: Given, *, name: str) -> Fitted:
    """A method of pu-toolbox on standardised columns, with its own estimate of π."""
    module = imported("pu_toolbox")
    imported("pu_toolbox.registry.builtin_methods").register_all_builtin_methods()
    make = imported("pu_toolbox.registry.registry").get_algorithm(name)
    scale, s = StandardScaler().fit(given.x), given.s.astype(int)
    x = scale.transform(given.x)
    prior = module.ClassPriorEstimator().fit(x, s).estimate()
    model = make(class_prior=prior, random_state=given.seed).fit(x, s, class_prior=prior)

    def answer(x: Floats) -> Answer:
        rows = scale.transform(x)
        return np.asarray(model.predict(rows)) > 0, np.asarray(model.decision_function(rows), dtype=float).ravel()

    return Fitted(answer)


def _forest(seed: int) -> Any:
    return RandomForestClassifier(200, class_weight="balanced", random_state=seed)


def _peer(function: Callable[..., Fitted], about: str, **options: Any) -> Method:
    """A method that competes and needs no package of its own."""
    return Method(partial(function, **options), about)


OURS = "pucl"
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        OURS: _peer(ours, "`PUClassifier` without settings"),
        "bag": _peer(bag, "200 trees, each on P and as many rows of U, √d columns a split", columns="sqrt"),
        "bag_all_columns": _peer(bag, "the same with all columns at every split", columns=None),
        "bag_and_logistic": _peer(bag_and_logistic, "mean of two ranks among U: `bag` and logistic regression"),
        "logistic": _peer(
            against_unlabelled, "logistic regression of P against U, classes balanced",
            make=lambda _: logistic(class_weight="balanced"),
        ),
        "forest": _peer(against_unlabelled, "random forest of P against U, classes balanced", make=_forest),
        "boosted": _peer(
            against_unlabelled, "boosted trees of P against U, classes balanced",
            make=partial(boosted, class_weight="balanced"),
        ),
        "elkan_noto": _peer(elkan_noto_logistic, "Elkan & Noto (2008) with logistic regression"),
        **{
            f"pulearn/{kind}": Method(partial(of_pulearn, kind=kind), about, needs="pulearn")
            for kind, about in (
                ("bagging_svc", "its `BaggingPuClassifier` of 15 support vector machines"),
                ("bagging_trees", "its `BaggingPuClassifier` of 100 trees"),
                ("elkanoto_forest", "its `ElkanotoPuClassifier` with a random forest"),
            )
        },
        "pu-toolbox/self_pu": Method(
            partial(of_pu_toolbox, name="self_pu"), "its Self-PU at its own estimate of π",
            needs="pu_toolbox",
        ),
        "boosted_at_true_prior": Method(
            boosted_at_true_prior, "Elkan & Noto's weights with boosted trees", knows="the true π"
        ),
        "supervised": Method(
            partial(against_unlabelled, make=boosted), "boosted trees of positives against negatives", knows="the truth"
        ),
    }
)  # fmt: skip
