"""Everything of pucl that takes numbers, each as a function of rows and PU labels that yields what it gives."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

import pucl
from extremes.trial import Component, Output
from pucl.baselines import settings_of
from pucl.heads.finetune import self_train
from pucl.heads.tuning import TuneConfig
from pucl.pseudo_labels import PseudoLabels, labellers
from pucl.registry import Entry, entries
from pucl.selection.thresholds import recall_threshold

PRIOR = 0.4
QUICK: dict[str, Any] = {"encoder": "raw", "labeller": "cvir", "head": "linear"}
TRAINED: dict[str, Any] = {"encoder": "mlp", "epochs": 1, "batch_size": 32, "labeller": "cvir", "head": "linear"}
# Settings of baselines that take time, and how little of it will do here.
FAST: Mapping[str, Any] = {
    "epochs": 1, "steps": 2, "bags": 3, "rounds": 1, "warm_up": 1, "warm_up_epochs": 1, "pretrain_epochs": 1,
    "episodes": 1, "features": 32, "first_epochs": 1, "first_steps": 2, "inner": 1, "growing": 1,
}  # fmt: skip


def _n(rows: Any) -> int:
    return len(rows)


def _predictions(model: Any, rows: Any) -> Iterator[Output]:
    n = _n(rows)
    yield Output("decision_function", model.decision_function(rows), (n,))
    yield Output("predict_proba", model.predict_proba(rows), (n, 2), 0.0, 1.0)
    yield Output("predict", model.predict(rows), (n,), -1, 1)


def classifier(rows: Any, s: Any, **how: Any) -> Iterator[Output]:
    """A fit, and all that it says."""
    model = pucl.PUClassifier(random_state=0, **how).fit(rows, s)
    yield from _predictions(model, rows)
    yield Output("transform", model.transform(rows), (_n(rows), None))
    yield Output("prior_", model.prior_, (), 0.0, 1.0)
    yield Output("prior_interval_", model.prior_interval_, (2,), 0.0, 1.0)
    yield Output("pseudo-labels", model.pseudo_labels_.probability, (_n(rows),), 0.0, 1.0)
    for name, score in model.scores_.items():
        yield Output(f"scores_[{name!r}]", list(score.values()))
    for share, lift in model.lift_.items():
        yield Output(f"lift_[{share}]", list(lift.values()))
    for name, importance in model.importance_.items():
        yield Output(f"importance_[{name!r}]", [importance.value, importance.error])
    yield Output("score", model.score(rows, s), (), 0.0, 1.0)
    if not model.prior_is_bound_:
        report = model.score_report(rows, s)
        yield Output("score_report", [report.pu_auc.value, report.recall.value, report.found.value], (3,), 0.0, 1.0)
    yield Output("summary", [float("nan in" in model.summary())], (1,), 0, 0)


def saved(rows: Any, s: Any, **how: Any) -> Iterator[Output]:
    """A model that is saved and loaded again gives what it gave."""
    model = pucl.PUClassifier(random_state=0, **QUICK, **how).fit(rows, s)
    with TemporaryDirectory() as folder:
        again = pucl.PUClassifier.load(model.save(f"{folder}/model"))
    yield from _predictions(again, rows)
    yield Output("change", again.decision_function(rows) - model.decision_function(rows), (_n(rows),), 0, 0)
    found = again.model_.scorer()(rows)
    name = next(name for name in found if name in ("probability", "score"))
    yield Output("scorer", found[name], (_n(rows),), *((0.0, 1.0) if name == "probability" else ()))


@cache
def ordinary(frame: bool) -> Any:
    """A model of ordinary rows, to predict others with."""
    from extremes.cases import plain

    rows, s = plain()
    if frame:
        import pandas as pd

        rows = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "c": np.where(rows[:, 2] > 0, "red", "green")})
    return pucl.PUClassifier(random_state=0).fit(rows, s)


def predicted(rows: Any, _s: Any) -> Iterator[Output]:
    """A model of ordinary rows predicts extreme ones."""
    yield from _predictions(ordinary(hasattr(rows, "columns")), rows)


def encoder(rows: Any, s: Any, **how: Any) -> Iterator[Output]:
    """The encoder alone."""
    yield Output("transform", pucl.PUEncoder(random_state=0, **how).fit(rows, s).transform(rows), (_n(rows), None))


def baseline_estimator(rows: Any, s: Any) -> Iterator[Output]:
    """A baseline as an estimator, with π estimated."""
    model = pucl.PUBaseline("nnpu", prior="auto", settings={"epochs": 1}, random_state=0).fit(rows, s)
    yield from _predictions(model, rows)


def labeller_estimator(rows: Any, s: Any) -> Iterator[Output]:
    """Pseudo-labels as an estimator."""
    found = pucl.PseudoLabeller(random_state=0).fit(rows, s)
    yield Output("probability_", found.probability_, (_n(rows),), 0.0, 1.0)
    yield Output("reliability_", found.reliability_, (_n(rows),), 0.0, 1.0)
    yield Output("prior_", found.prior_, (), 0.0, 1.0)


def prior_estimator(rows: Any, s: Any) -> Iterator[Output]:
    """π as an estimator."""
    found = pucl.PriorEstimator(random_state=0).fit(rows, s)
    yield Output("prior_", [found.prior_, *found.interval_], (3,), 0.0, 1.0)


def transform(rows: Any, _s: Any) -> Iterator[Output]:
    """The transform of tables."""
    import pandas as pd

    table = rows if hasattr(rows, "columns") else pd.DataFrame(_array(rows)).add_prefix("x")
    fitted = pucl.TableTransform.fit(table)
    again = pucl.TableTransform.from_json(fitted.to_json())
    yield Output("features", fitted.apply(table), (_n(rows), len(fitted.features)))
    yield Output("stored", again.apply(table) - fitted.apply(table), (_n(rows), None), 0, 0)


def pseudo_labels(entry: Entry, rows: Any, s: Any) -> Iterator[Output]:
    """A labeller or ranker."""
    found = pucl.pseudo_label(rows, s, method=entry.name, prior=PRIOR if entry.needs_prior else None)
    yield Output("probability", found.probability, (_n(rows),), 0.0, 1.0)
    yield Output("reliability", found.reliability, (_n(rows),), 0.0, 1.0)
    yield Output("prior", [found.prior, *(found.interval or ())], (), 0.0, 1.0)
    if found.score is not None:
        yield Output("score", found.score, (_n(rows),))


def prior_of_rows(method: str, rows: Any, s: Any) -> Iterator[Output]:
    """π of rows by an estimator."""
    found = pucl.estimate_prior(rows, s, method=method)
    yield Output("prior", [found.low, found.value, found.high], (3,), 0.0, 1.0)


def prior_of_scores(method: str, rows: Any, s: Any) -> Iterator[Output]:
    """π of one score, by an estimator of scores."""
    squashed = method != "auto" and "probability" in entries("priors")[method].inputs
    yield from prior_of_rows(method, _squashed(rows[:, 0]) if squashed else rows[:, 0], s)


def prior_of_samples(entry: Entry, rows: Any, s: Any) -> Iterator[Output]:
    """π of samples of P and U."""
    array = _array(rows)
    sample = array if "vector" in entry.inputs else array[:, 0]
    sample = _squashed(sample) if "probability" in entry.inputs else sample
    found = entry.function(sample[s], sample[~s])
    yield Output("prior", [found.low, found.value, found.high], (3,), 0.0, 1.0)


def head(method: str, rows: Any, s: Any) -> Iterator[Output]:
    """A head on pseudo-labels that are made of the first half."""
    z = _tensor(rows)
    fitted = pucl.fit_head(z, s, _halves(s), method=method)
    with torch.no_grad():
        yield Output("logits", fitted(z), (len(z),))


def _halves(s: Any) -> PseudoLabels:
    """The first half is called positive."""
    probability = (torch.arange(len(s)) < len(s) // 2) * 0.8 + 0.1
    return PseudoLabels.from_probability(probability, torch.from_numpy(s))


def loss(name: str, rows: Any, s: Any) -> Iterator[Output]:
    """An objective and its gradient."""
    z1, z2 = _leaf(_tensor(rows)), _leaf(_tensor(rows).flip(0))
    entry = entries("losses")[name]
    prior, mixing = PRIOR if entry.needs_prior else None, 0.5 if name == "mcl" else None
    value = pucl.contrastive_loss(name, z1, z2, s, prior=prior, mixing=mixing)
    value.backward()  # type: ignore[no-untyped-call]
    yield Output("loss", value, ())
    yield Output("gradient", z1.grad, tuple(z1.shape))


def risk(name: str, rows: Any, s: Any) -> Iterator[Output]:
    """A risk and its gradient."""
    logits = _leaf(_tensor(rows)[:, 0])
    value = pucl.pu_risk(name, logits, s, prior=PRIOR)
    value.backward()  # type: ignore[no-untyped-call]
    yield Output("risk", value, ())
    yield Output("gradient", logits.grad, (len(logits),))


def baseline(entry: Entry, rows: Any, s: Any) -> Iterator[Output]:
    """A baseline, for an instant."""
    known = {field.name for field in fields(settings_of(entry.name))}
    fast = {name: value for name, value in FAST.items() if name in known}
    scorer = pucl.fit_baseline(entry.name, rows, s, prior=PRIOR, settings=fast, device="cpu")
    x = _tensor(rows).float()
    with torch.no_grad():
        yield Output("logits", scorer(x), (_n(rows),))


def scores(rows: Any, s: Any) -> Iterator[Output]:
    """Scores of a classifier without negatives."""
    found = pucl.pu_scores(rows[:, 0], s, prior=PRIOR)
    for name, value in vars(found).items():
        if value is not None and name != "prior":
            yield Output(name, [value.value, value.error], (2,))


def curve(rows: Any, s: Any) -> Iterator[Output]:
    """Precision and recall at every threshold."""
    found = pucl.threshold_curve(rows[:, 0], s, PRIOR)
    for name in ("precision", "recall", "f1"):
        yield Output(name, getattr(found, name), (None,), 0.0, 1.0)
    yield Output("threshold", found.threshold, (None,))
    yield Output("recall_threshold", recall_threshold(rows[:, 0], s, 0.9), ())


def selected(rows: Any, s: Any) -> Iterator[Output]:
    """One of two candidates."""
    found = pucl.select({"a": rows[:, 0], "b": rows[:, -1]}, s)
    yield Output("prior", found.prior, (), 0.0, 1.0)
    yield Output("accuracy", [each.proxy_accuracy.value for each in found.scores.values()], (2,))


def diagnosed(rows: Any, s: Any) -> Iterator[Output]:
    """What can be told before any fit."""
    found = pucl.diagnose(rows, s, prior=PRIOR)
    figures = (found.ratio_auc, found.rich_positive, found.rich_unlabelled, found.bias_auc)
    yield Output("figures", figures, (4,), 0.0, 1.0)
    yield Output("messages", [float("nan" in str(found))], (1,), 0, 0)


def evaluated(rows: Any, s: Any) -> Iterator[Output]:
    """Figures with the truth."""
    found = pucl.evaluate(s, rows[:, 0])
    yield Output("figures", [value for value in vars(found).values() if value is not None], (None,), 0.0, 1.0)


def tuned(rows: Any, s: Any) -> Iterator[Output]:
    """An encoder trained together with its head."""
    x = _tensor(rows).float()
    config = pucl.TrainConfig(epochs=1, batch_size=min(16, len(x)))
    network = pucl.pretrain(x, s, objective="pucl", encoder="mlp", config=config).encoder
    found = self_train(x, s, _halves(s), network, TuneConfig(epochs=1))
    with torch.no_grad():
        yield Output("logits", found(x), (len(x),))


def _squashed(score: Any) -> Any:
    """Within [0, 1], as probabilities are."""
    return torch.sigmoid(score) if isinstance(score, Tensor) else expit(np.asarray(score, dtype=np.float64))


def _leaf(values: Tensor) -> Tensor:
    """Values that a gradient can be taken of, where they have a type for it."""
    return values.detach().clone().requires_grad_(values.is_floating_point())


def _array(rows: Any) -> Any:
    if isinstance(rows, Tensor):
        return rows.double().numpy()
    return rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)


def _tensor(rows: Any) -> Tensor:
    """Rows as users of tensors have them: in the same type where torch has it."""
    if isinstance(rows, Tensor):
        return rows
    array = np.array(rows, order="C")
    array = array.astype(array.dtype.newbyteorder("=")) if array.dtype.byteorder == ">" else array
    return torch.from_numpy(array if array.dtype != np.longdouble else array.astype(np.float64))


def _over(family: str, form: str, function: Any, *, by_entry: bool = False) -> dict[str, Component]:
    found = labellers() if family == "labellers" else entries(family)
    return {f"{form} {name}": partial(function, entry if by_entry else name) for name, entry in found.items()}


@cache
def components() -> dict[str, Component]:
    """All of them by name; estimators and readers of tables first."""
    return {
        **tables(),
        "PseudoLabeller": labeller_estimator,
        "PriorEstimator": prior_estimator,
        **_over("labellers", "pseudo_label", pseudo_labels, by_entry=True),
        **{f"estimate_prior {name}": partial(prior_of_rows, name) for name in ("auto", *entries("priors"))},
        **{f"estimate_prior of scores {name}": partial(prior_of_scores, name) for name in ("auto", *entries("priors"))},
        **_over("priors", "prior", prior_of_samples, by_entry=True),
        **_over("heads", "head", head),
        **_over("losses", "loss", loss),
        **_over("risks", "risk", risk),
        **_over("baselines", "baseline", baseline, by_entry=True),
        "pu_scores": scores,
        "threshold_curve": curve,
        "select": selected,
        "diagnose": diagnosed,
        "evaluate": evaluated,
        "self_train": tuned,
    }


def tables() -> dict[str, Component]:
    """Those that take tables."""
    return {
        "PUClassifier": classifier,
        "PUClassifier raw, cvir, linear": partial(classifier, **QUICK),
        "PUClassifier mlp": partial(classifier, **TRAINED),
        "PUClassifier saved": saved,
        "a model of other rows": predicted,
        "PUEncoder": encoder,
        "PUEncoder mlp": partial(encoder, encoder="mlp", epochs=1, batch_size=32),
        "PUEncoder pca": partial(encoder, encoder="pca"),
        "PUBaseline": baseline_estimator,
        "TableTransform": transform,
    }
