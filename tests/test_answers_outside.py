"""Answers on rows outside of a fit's random sample of U: they teach, and no count of the sample knows of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model_examples import HEADER, QUICK, N, table_rows, write_table
from pucl.data.own import ReadOptions, sample
from pucl.fitting.answered import share_of_rest, with_answers
from pucl.fitting.average import Average
from pucl.fitting.calibrate import calibrate_head
from pucl.fitting.compare import AVERAGE, BLEND, Candidate, Comparison, Judged
from pucl.fitting.fit import FitResult, fit
from pucl.fitting.from_files import fit_files
from pucl.fitting.label import label
from pucl.fitting.plan import FitOptions, FitPlan, plan_fit
from pucl.fitting.recording import Hidden
from pucl.fitting.sampling import read_rows
from pucl.fitting.tune import Classifier
from pucl.heads import LinearHead
from pucl.models.folder import load_model
from pucl.models.schema import learn_schema
from pucl.pseudo_labels import PseudoLabels
from review_examples import cloud

from conftest import Command

pytest.importorskip("pyarrow")
READ = ReadOptions(label="known", id_column="id")
ANSWERED = ["r05", "r25", "r33", "r40", "r41", "r52", "r58", "gone"]  # a labelled row, unlabelled ones, and none


def read(source: Any, also: Any = (), reading: ReadOptions = READ, n: int = 36) -> Any:
    data, sampling = read_rows(source, reading, n, seed=0, also=also)
    assert sampling is not None
    return data


def test_answered_rows_come_on_top_of_the_same_sample(tmp_path: Path) -> None:
    source = write_table(tmp_path / "people.csv")
    alone, data = read(source), read(source, ANSWERED)
    assert alone.extra is None and len(alone) == 36
    outside = [one for one in ANSWERED[1:-1] if one not in alone.ids]
    assert outside and len(outside) < len(ANSWERED) - 2, "some are drawn, some are not"
    assert sorted(data.ids[data.extra]) == sorted(outside)
    assert data.ids[~data.extra].tolist() == alone.ids.tolist() and (data.s[~data.extra] == alone.s).all()
    assert not data.s[data.extra].any()
    assert read(source, ["r05", "gone", *alone.ids]).extra is None


def test_neither_files_nor_their_order_matter(tmp_path: Path) -> None:
    one = read(write_table(tmp_path / "people.csv"), ANSWERED)
    (tmp_path / "many").mkdir()
    rows = table_rows()[::-1]
    for k, part in enumerate((rows[:7], rows[7:30], rows[30:])):
        write_table(tmp_path / "many" / f"{k}.csv", part)
    many = read(tmp_path / "many", ANSWERED)
    for name in ("ids", "s", "extra"):
        assert getattr(one, name).tolist() == getattr(many, name).tolist()
    assert one.load().values["age"].tolist() == many.load().values["age"].tolist()


def test_confirmed_negatives_and_labels_stay_what_they_are(tmp_path: Path) -> None:
    source = write_table(tmp_path / "people.csv")
    known = [f"r{i:02d}" for i in range(30, 60)]
    data = read(source, ["r01", "r31", "r55", "r22", "r23"], replace(READ, negatives=known))
    assert int(data.negative.sum()) == 9 and int(data.s.sum()) == 18  # a quarter and half of the sample
    assert data.extra is None and not set(data.ids) - {*known, *(f"r{i:02d}" for i in range(30))}
    few = read(source, ["r31", "r22", "r23", "r24"], replace(READ, negatives=known), n=12)
    assert set(few.ids[few.extra]) <= {"r22", "r23", "r24"} and int(few.negative.sum()) == 3


def test_rows_without_ids_are_known_by_their_numbers(tmp_path: Path) -> None:
    source = write_table(tmp_path / "people.csv", [row[1:] for row in table_rows()], HEADER[1:])
    reading = ReadOptions(label="known")
    alone, data = read(source, (), reading), read(source, [str(i) for i in range(20, 60)], reading)
    assert sorted(data.ids[data.extra].tolist()) == sorted(set(range(20, 60)) - set(alone.ids.tolist()))
    assert data.ids[~data.extra].tolist() == alone.ids.tolist()


def test_other_sources_the_same() -> None:
    x, s = np.arange(100.0).reshape(50, 2), np.arange(50) < 10
    data = ReadOptions(label=s).read(x)
    alone = sample(data, 20, seed=1, keep_positives=True)
    more = sample(data, 20, seed=1, keep_positives=True, also=["3", "30", "31", "32", "33", "34"])
    assert more.extra is not None and alone.extra is None
    assert more.ids[more.extra].tolist() == [i for i in range(30, 35) if i not in alone.ids]
    assert more.ids[~more.extra].tolist() == alone.ids.tolist()
    assert (more.load()[:, 0] == 2 * more.ids).all()


N_P, N_U, N_EXTRA = 60, 600, 90


def planned(extra: bool, **options: Any) -> tuple[FitPlan, NDArray[np.float64]]:
    """A plan with some answers in U, with or without answered rows outside of it between the others; fixed scores."""
    rng = np.random.default_rng(0)
    is_extra = np.zeros(N_P + N_U + N_EXTRA, dtype=bool)
    is_extra[rng.permutation(len(is_extra))[:N_EXTRA]] = True
    count = np.cumsum(~is_extra)  # so that the other rows are the same in both plans
    s = ~is_extra & (count <= N_P)
    truth = s | is_extra | (rng.random(len(s)) < 0.25)
    x = cloud(len(s), seed=1)
    x[:, 0] += 3 * truth
    answers = np.where(is_extra | (~s & (count % 20 == 0)), truth, np.nan)
    kept = np.ones(len(s), dtype=bool) if extra else ~is_extra
    schema, rows = learn_schema(x)
    plan = plan_fit(
        rows[torch.from_numpy(kept)], s[kept], schema, FitOptions(**options), torch.device("cpu"),
        answers=answers[kept], extra=is_extra[kept] if extra else None,
    )  # fmt: skip
    return plan, x[kept, 0].astype(np.float64)


def counted(extra: bool, **options: Any) -> dict[str, Any]:
    """What is counted of fixed scores: π, the threshold, the temperature, and the rows that are hidden."""
    plan, score = planned(extra, **options)
    candidate = Candidate("raw", plan.features, AVERAGE, BLEND, (0, 1))
    head = LinearHead(torch.tensor([1.0, 0, 0, 0]), torch.tensor(0.0))
    average: Any = Average((), (), head, score, np.zeros(4), np.ones(4))  # type: ignore[arg-type]
    judged = Judged(candidate, score)
    comparison = Comparison((judged,), 0, average)
    labels = label(plan, comparison)
    classifier: Any = Classifier(None, None, head, plan.features, None, comparison)  # type: ignore[arg-type]
    calibrated, after = calibrate_head(plan, labels, classifier, judged)
    hidden = Hidden.of(plan, after)
    return {
        "prior": labels.prior, "share": labels.share, "temperature": calibrated.temperature, "shift": calibrated.shift,
        "hidden": hidden.logits.tolist(), "labelled": hidden.labelled.tolist(), "rest": share_of_rest(plan, 0.3),
        "positive": int(labels.pseudo.labels[plan.unlabelled].sum()), "folds": plan.fold[plan.counted].tolist(),
        "training": plan.pretraining, "n": plan.n_unlabelled,
    }  # fmt: skip


@pytest.mark.parametrize("prior", [None, 0.3, "auto", "bbe"])
def test_no_count_knows_of_them(prior: Any) -> None:
    """The same scores, with and without 90 positive rows outside of the sample: every figure is equal."""
    assert counted(True, prior=prior) == counted(False, prior=prior)


def test_they_teach() -> None:
    plan, _ = planned(True)
    assert plan.extra is not None and plan.answered is not None and int(plan.extra.sum()) == N_EXTRA
    assert (
        plan.train_positive[plan.extra].all()
        and not plan.unlabelled[plan.extra].any()
        and not plan.in_p_or_u[plan.extra].any()
    )
    assert int(plan.train_positive.sum()) == N_P + int((plan.answered > 0).sum())
    assert sorted(set(plan.fold[plan.extra].tolist())) == [0, 1, 2, 3, 4], "judged by models that did not see them"
    pseudo = PseudoLabels.from_scores(torch.linspace(-1, 1, len(plan.rows)), plan.labelled, prior=0.3)
    assert with_answers(plan, pseudo).labels[plan.extra].all()


def fit_with(n_extra: int, truthful: bool = True, **options: Any) -> tuple[FitResult, float]:
    """A fit to a sample of U and the most likely of the other rows, answered; the true share in the sample."""
    rng = np.random.default_rng(3)
    truth = np.concatenate([np.ones(80, bool), rng.random(4500) < 0.2])
    x = cloud(len(truth), seed=4)
    x[:, 0] += 4 * truth
    s, in_sample = np.arange(len(truth)) < 80, np.arange(len(truth)) < 1580
    outside = np.flatnonzero(~in_sample)
    extra = np.zeros(len(truth), dtype=bool)
    extra[outside[np.argsort(-x[outside, 0])[:n_extra]]] = True
    kept = in_sample | extra
    answers = np.where(extra, truth if truthful else ~truth, np.nan)[kept]
    schema, rows = learn_schema(x[kept])
    found = fit(rows, s[kept], schema, FitOptions(**options), answers=answers, extra=extra[kept] if n_extra else None)
    return found, float(truth[80:1580].mean())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"encoder": "raw", "labeller": "cvir", "head": "linear"}])
def test_a_whole_fit_stays_as_it_was(options: dict[str, Any]) -> None:
    """Two fifths of the positives outside of the sample are answered; counted as U, they would double π."""
    (before, share), (after, _) = (fit_with(n, **options) for n in (0, 250))
    old, new = before.model.record, after.model.record
    assert new.rows == old.rows and new.rows.unlabelled == 1500 and new.rows.n == 1580
    assert abs(new.prior.value - old.prior.value) < 0.02 and new.prior.low <= share <= new.prior.high
    assert new.prior.is_bound == old.prior.is_bound
    assert old.metrics is not None and new.metrics is not None
    assert abs(new.metrics.pu_auc.value - old.metrics.pu_auc.value) < old.metrics.pu_auc.error
    assert abs((after.logits[:1580] > 0).mean() - (before.logits > 0).mean()) < 0.02
    assert any("but for 250 outside of the sample, which no figure counts." in text for text in new.reasons)
    misled, _ = fit_with(250, truthful=False, **options)
    assert (misled.logits[1580:] > 0).mean() < (after.logits[1580:] > 0).mean(), "they teach"


def test_by_command(pucl: Command, tmp_path: Path) -> None:
    lines = [f"{one},{'yes' if int(one[1:]) < 30 else 'no'}" for one in ANSWERED[1:-1]]
    Path("a.csv").write_text("\n".join(["id,answer", *lines]), encoding="utf-8")
    (tmp_path / "many").mkdir()
    for k, part in enumerate((table_rows()[40:], table_rows()[:40])):
        write_table(tmp_path / "many" / f"{k}.csv", part)
    words = ("--label", "known", "--id-column", "id", "--encoder", "raw", "--head", "linear", "--labeller", "cvir")
    weights, records = [], []
    for k, source in enumerate(("people.csv", "many")):
        run = pucl("fit", source, *words, "--rows", "36", "--answers", "a.csv", "--out", f"m{k}")
        assert run.code == 0 and "left out" not in run.err and "Answers that count: 6" in run.out
        weights.append(Path(f"m{k}", "head.safetensors").read_bytes())
        records.append(load_model(f"m{k}").record)
    assert weights[0] == weights[1]
    rows = records[0].rows
    assert (rows.n, rows.labelled, rows.unlabelled) == (36, 18, 18)
    assert records[0].sampling is not None and records[0].sampling.rows.n == N
    assert pucl("fit", "people.csv", *words, "--rows", "36", "--out", "m").code == 0
    assert Path("m", "head.safetensors").read_bytes() != weights[0], "they teach"
    Path("b.csv").write_text("id,answer\ngone,yes\n", encoding="utf-8")
    run = pucl("fit", "people.csv", *words, "--rows", "36", "--answers", "b.csv", "--out", "m3")
    assert run.code == 2 and "--answers must be about rows of the data, by their ids" in run.err


def test_contradictions_outside_of_the_sample_are_asked_again(pucl: Command) -> None:
    words = ("--label", "known", "--id-column", "id", "--encoder", "raw", "--head", "linear", "--labeller", "cvir")
    assert pucl("fit", "people.csv", *words, "--out", "m").code == 0
    run = pucl("review", "m", "people.csv", "--out", "review", "--n", "40", "--json")
    ids = [line.split(",")[0] for line in Path("review", "sheet-0001.csv").read_text().splitlines()[1:]]
    assert json.loads(run.out)["rows"] == len(ids) == 40
    lines = [f"{one},{said},sheet-0001" for one in ids for said in ("yes", "no")]
    Path("a.csv").write_text("\n".join(["id,answer,sheet", *lines]), encoding="utf-8")
    assert pucl("review", "--out", "review", "--add", "a.csv").code == 0
    assert pucl("review", "m", "people.csv", "--out", "review", "--n", "40", "--rows", "24").code == 0
    again = [line.split(",")[0] for line in Path("review", "sheet-0002.csv").read_text().splitlines()[1:]]
    assert sorted(again) == sorted(ids)


def test_quick_settings_with_a_given_prior(tmp_path: Path) -> None:
    model = fit_files(
        write_table(tmp_path / "people.csv"),
        READ,
        FitOptions(**QUICK),
        max_rows=36,
        answers={"r52": False, "r58": False},
    )
    assert model.record.rows.n == 36 and model.evidence is not None and model.evidence.n_unlabelled == 40
