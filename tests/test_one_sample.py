"""One sample: P was labelled out of the population, so that U lacks it. Means over the population are over P ∪ U."""

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pucl.baselines import fit_baseline
from pucl.baselines.dist_pu import distribution_risk
from pucl.baselines.vpu import held_out_loss, variational_loss
from pucl.bench.run import stages
from pucl.bench.run.exam import pose
from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.errors import InputError
from pucl.estimators import PUBaseline, pu_scorer
from pucl.numerics.auc import auc
from pucl.risks.nnpu import nnpu
from pucl.risks.upu import upu
from pucl.selection import select

from bench_examples import baseline

LOGITS = torch.tensor([2.0, -1.0, 0.5, 1.5, -2.0, 1.0, -0.4, -3.0], dtype=torch.float64)
TRUTH = torch.tensor([True, True, True, True, False, False, False, False])
N_LABELLED = 2


def every_sample() -> list[tuple[Tensor, float]]:
    """All ways to label two of the four positives of the population, with the share of positives that is left in U."""
    samples = []
    for rows in combinations(range(4), N_LABELLED):
        labelled = torch.zeros(8, dtype=torch.bool)
        labelled[list(rows)] = True
        samples.append((labelled, float(TRUTH[~labelled].double().mean())))
    return samples


def mean_of(values: list[Tensor]) -> float:
    return float(torch.stack(values).mean())


@pytest.mark.parametrize("loss", ["sigmoid", "logistic"])
def test_the_expectation_is_the_supervised_risk_of_the_population(loss: Any) -> None:
    cost = torch.sigmoid if loss == "sigmoid" else torch.nn.functional.softplus
    of_row = cost(torch.where(TRUTH, -LOGITS, LOGITS))
    positive, negative = float(of_row[TRUTH].mean()), float(of_row[~TRUTH].mean())
    found = {
        setting: mean_of([upu(LOGITS, s, prior=p, loss=loss, setting=setting) for s, p in every_sample()])
        for setting in ("single-set", "case-control")
    }
    assert found["single-set"] == pytest.approx(positive / 2 + negative / 2, abs=1e-12)
    assert found["case-control"] == pytest.approx(positive / 3 + negative * 2 / 3, abs=1e-12)  # that of U


def reference(logits: list[float], labelled: list[bool], prior: float, share: float) -> tuple[float, float]:
    """uPU and nnPU with the sigmoid loss, row by row."""

    def mean(sign: float, wanted: bool) -> float:
        rows = [1 / (1 + np.exp(sign * g)) for g, s in zip(logits, labelled, strict=True) if s == wanted]
        return float(sum(rows) / len(rows))

    positive = (share + (1 - share) * prior) * mean(1, True)
    population = share * mean(-1, True) + (1 - share) * mean(-1, False)
    negative = population - (share + (1 - share) * prior) * mean(-1, True)
    return positive + negative, positive + max(0.0, negative)


@pytest.mark.parametrize("share", [0.05, 0.375, 0.9])
def test_a_given_share_of_labelled_rows_replaces_that_of_the_batch(share: float) -> None:
    labelled = torch.arange(8) < 3
    expected = reference(LOGITS.tolist(), labelled.tolist(), 0.3, share)
    options: dict[str, Any] = {"prior": 0.3, "setting": "single-set"}
    for risk, value in zip((upu, nnpu), expected, strict=True):
        assert float(risk(LOGITS, labelled, labelled_share=share, **options)) == pytest.approx(value, abs=1e-12)
        if share == 0.375:  # as in the batch
            assert float(risk(LOGITS, labelled, **options)) == pytest.approx(value, abs=1e-12)
    with pytest.raises(InputError, match="labelled_share"):
        upu(LOGITS, labelled, labelled_share=1.5, **options)


def test_a_batch_with_many_labelled_rows_has_the_same_expectation() -> None:
    """A stream of P apart from U: the share of labelled rows in the batch says nothing of the population."""
    labelled, prior = every_sample()[0]
    p, u = LOGITS[labelled], LOGITS[~labelled]
    batch, marks = torch.cat([p.repeat(5), u]), torch.arange(16) < 10
    options: dict[str, Any] = {"prior": prior, "setting": "single-set"}
    whole = upu(LOGITS, labelled, **options)
    torch.testing.assert_close(upu(batch, marks, labelled_share=0.25, **options), whole)
    of_batch = reference(batch.tolist(), marks.tolist(), prior, 10 / 16)[0]
    assert float(upu(batch, marks, **options)) == pytest.approx(of_batch, abs=1e-12) and of_batch > float(whole)


def test_dist_pu_is_least_for_the_truth_in_the_population() -> None:
    sure = torch.where(TRUTH, 30.0, -30.0)
    for labelled, prior in every_sample():
        assert float(distribution_risk(sure, labelled, prior=prior, labelled_share=0.25)) == pytest.approx(0, abs=1e-6)
    scores, labelled = torch.sigmoid(LOGITS), every_sample()[0][0]
    p, u = scores[labelled].mean(), scores[~labelled].mean()
    expected = (1 - p) + abs(0.25 * p + 0.75 * u - 0.5) / (2 * 0.5)
    found = distribution_risk(LOGITS, labelled, prior=1 / 3, labelled_share=0.25)
    assert float(found) == pytest.approx(float(expected), abs=1e-9)
    only_u = distribution_risk(LOGITS[~labelled], labelled[~labelled], prior=1 / 3, labelled_share=0.25)
    assert float(only_u) == pytest.approx(float(abs(u - 1 / 3) / (2 / 3)), abs=1e-9)


def test_vpu_takes_the_mean_over_the_population() -> None:
    labelled = every_sample()[3][0]
    log_phi = torch.nn.functional.logsigmoid(LOGITS)
    expected = log_phi.exp().mean().log() - log_phi[labelled].mean()  # the mean over all rows: c is 2 / 8
    torch.testing.assert_close(held_out_loss(LOGITS, labelled, 0.25), expected)
    torch.testing.assert_close(variational_loss(log_phi[labelled].repeat(9), log_phi[~labelled], 0.25), expected)


@pytest.mark.parametrize("method", ["upu", "nnpu", "dist_pu", "vpu"])
def test_baselines_take_the_setting_and_find_the_larger_class(method: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) < 240
    x = (rng.normal(size=(400, 2)) + 1.5 * y[:, None]).astype(np.float32)
    sample = make_pu(y, 160, setting="single-set", seed=0)  # π falls from 0.6 to 1/3
    settings = {"epochs": 8, "batch_size": 64}
    found = {}
    for setting in ("case-control", "single-set"):
        options: dict[str, Any] = {"prior": sample.prior, "settings": settings, "encoder": "raw", "device": "cpu"}
        scorer = fit_baseline(method, x[sample.rows], sample.s, setting=setting, **options)
        found[setting] = scorer(torch.from_numpy(x)).numpy()
    assert not np.allclose(found["case-control"], found["single-set"])
    if method in ("upu", "nnpu"):  # decisions for the population, which has more positives than U
        assert (found["single-set"] > 0).mean() > (found["case-control"] > 0).mean()


def test_an_unknown_setting_is_refused() -> None:
    x, s = np.zeros((8, 2), np.float32), np.arange(8) < 2
    with pytest.raises(InputError, match="unknown setting of baseline 'nnpu' 'overlapping'"):
        fit_baseline("nnpu", x, s, prior=0.5, setting="overlapping")  # type: ignore[arg-type]
    rows = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(InputError, match="unknown setting of baseline 'nnpu' 'one'"):
        PUBaseline("nnpu", prior=0.5, setting="one").fit(rows, s)  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", ["single-set", "case-control"])
def test_the_benchmark_says_how_its_data_were_drawn(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def spy(*_: Any, setting: str, **__: Any) -> Any:
        seen.append(setting)
        return torch.nn.Identity()

    monkeypatch.setattr("pucl.baselines.fit_baseline", spy)
    cell = baseline("naive", setting=setting)
    observed, exam = pose(cell.place)
    stages.fit_method(cell, observed, exam, "cpu")
    assert seen == [setting]


def test_the_proxy_auc_chooses_the_best_ranking_whatever_the_prior() -> None:
    data = load("gaussians", seed=0)
    sample = make_pu(data.y_train, 100, setting="single-set", seed=0)
    y = data.y_train[sample.rows]
    rng = np.random.default_rng(0)
    candidates = {f"noise {noise}": y * 2.0 - 1 + noise * rng.normal(size=len(y)) for noise in (3, 1, 2)}
    candidates["noise 1"] -= 50  # a bad threshold, which the ranking does not show
    chosen = [select(candidates, sample.s, criterion="pu_auc", prior=prior) for prior in (0.1, 0.5, None)]
    assert [found.name for found in chosen] == ["noise 1"] * 3
    scores = chosen[0].scores["noise 1"]
    g = candidates["noise 1"]
    scorer = pu_scorer("pu_auc")(SimpleNamespace(decision_function=lambda x: x), g, sample.s)  # with no prior_
    assert scorer == scores.pu_auc.value == pytest.approx(auc(g[sample.s], g[~sample.s])[0])
    c = sample.s.mean()  # with P ∪ U in the place of U the order is the same
    assert auc(g[sample.s], g)[0] == pytest.approx(c / 2 + (1 - c) * scores.pu_auc.value)
