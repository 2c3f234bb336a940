"""What theory says of people's own data: label noise, κ, geometry and bias over the plausible π, and its unknowns."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Generator

import pucl as package
from model_examples import table_model
from pucl.errors import InputError
from pucl.models.diagnosis import diagnose_model
from pucl.models.folder import load_model, save_model
from pucl.models.record import EpochRecord
from pucl.priors import PriorEstimate
from pucl.pseudo_labels import PseudoLabels
from pucl.report import write_report
from pucl.selection.limits import Geometry, geometry_of, limits, separation, uniformity
from pucl.selection.scores import Estimate
from pucl.training import monitor
from report_examples import bounded_record, evidence_of, table

from conftest import Command

FORTY = (40, 4960)


def test_forty_positives_among_five_thousand_rows() -> None:
    found = limits(*FORTY, prior=PriorEstimate(0.3, 0.25, 0.35, "bbe"))
    gamma = 40 / 4960
    assert found.outnumbered == gamma and found.breakdown == pytest.approx(0.504, abs=1e-3)
    assert found.noise == pytest.approx((0.25 / (0.25 + gamma), 0.35 / (0.35 + gamma)))
    assert found.kappa == pytest.approx((0.25 * 0.75 / (1 + gamma), 0.35 * 0.65 / (1 + gamma)))
    first, second, *rest = found.messages
    assert (
        "40 labelled positives among 5,000 rows" in first and "more than 0.806 % of the unlabelled rows (40)" in first
    )
    assert "from 50.4 % on" in first
    assert second.startswith("Here 25 to 35 % of them are positive, so 96.9 to 97.7 % of all positives would count")
    assert [each.split(":")[0] for each in rest if "unknown" in each] == [
        "Alignment", "Uniformity of the embedding", "Separation of the centroids", "Bias of the objective sCL-PU",
    ]  # fmt: skip
    assert str(found) == "\n".join(found.messages)


def test_a_bias_that_rounds_to_nothing_is_said_to_be_next_to_none() -> None:
    near, far = (Geometry(separation=Estimate(value, 0.001)) for value in (0.005, 0.5))
    *_, small = limits(*FORTY, prior=PriorEstimate.bound(0.5, "bbe"), geometry=near).messages
    *_, large = limits(*FORTY, prior=0.5, geometry=far).messages
    assert "next to none" in small and "draw the classes together" not in small
    assert "0.25 of the loss" in large and "draw the classes together" in large


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (0.7, "beyond repair"),
        (0.2, "finds few of them"),
        (0.005, "can work"),
        (PriorEstimate.bound(0.3, "bbe"), "whether a classifier trained that way can work is unknown"),
        (PriorEstimate.point(0.3, "km"), "How many of them are positive is unknown"),
        (PriorEstimate(0.7, 0.6, 0.8, "given"), "Here 70 % of them"),
    ],
)
def test_what_treating_unlabelled_rows_as_negatives_comes_to(prior: PriorEstimate | float, words: str) -> None:
    assert words in limits(*FORTY, prior=prior).messages[1]


def test_a_bound_reaches_down_to_nothing() -> None:
    found = limits(100, 900, prior=PriorEstimate.bound(0.6, "bbe"))
    assert found.prior == pytest.approx((0, 0.6)) and found.noise[0] == 0
    assert found.kappa == pytest.approx((0, 0.25 / (1 + 1 / 9)))  # its largest value lies inside the range
    assert "at most 60 %" in found.messages[1]


def test_the_bias_is_that_of_the_centroids() -> None:
    """2κ(ρ_intra − ρ_inter) with ρ of two classes that are points, half of U positive."""
    geometry = Geometry(separation=Estimate(2.0, 0.1))  # orthogonal points: ρ_intra = 1/τ, ρ_inter = 0
    found = limits(50, 100, prior=0.5, geometry=geometry)
    kappa = 0.25 / 1.5
    assert found.bias == pytest.approx((2 * kappa * 2, 2 * kappa * 2))
    assert "0.67 of the loss (at τ = 0.5)" in found.messages[-1]


def test_few_rows_do_not_push_centroids_apart(generator: Generator) -> None:
    found = [
        separation(torch.randn(5, 20, generator=generator), torch.randn(9, 20, generator=generator)) for _ in range(99)
    ]
    biased = 20 / 5 + 20 / 9  # what the plain squared distance of the means has on average
    assert sum(each.value for each in found) / len(found) < 0.2 * biased
    shift = torch.eye(1, 20)[0]
    far = [
        separation(torch.randn(50, 20, generator=generator) + 3 * shift, torch.randn(50, 20, generator=generator))
        for _ in range(99)
    ]
    values = torch.tensor([each.value for each in far])
    assert float(values.mean()) == pytest.approx(9, abs=0.5)
    assert sum(each.error for each in far) / len(far) == pytest.approx(float(values.std()), rel=0.25)


def test_uniformity_is_that_of_training_and_does_not_move(generator: Generator) -> None:
    z = F.normalize(torch.randn(50, 8, generator=generator), dim=1)
    assert uniformity(z) == pytest.approx(float(monitor.uniformity(z)), abs=1e-5)
    assert uniformity(z + 3) == pytest.approx(uniformity(z), abs=1e-4)


def test_geometry_takes_what_there_is(generator: Generator) -> None:
    z, labelled = torch.randn(6, 3, generator=generator), torch.arange(6) < 2
    assert geometry_of(z, labelled, None).separation is None
    assert geometry_of(z, labelled, torch.arange(6) == 5).separation is None  # one row has no spread
    assert geometry_of(z, labelled, torch.arange(6) > 3).separation == separation(z[:2], z[4:])
    assert geometry_of(z[:3], labelled[:3], None).uniformity is None


def test_diagnose_says_more_when_it_knows_the_share(generator: Generator) -> None:
    positive = torch.arange(200) < 80
    z = torch.randn(200, 4, generator=generator) + 3 * positive[:, None]
    s = torch.arange(200) < 30
    pseudo = PseudoLabels.from_probability(positive.double(), s)
    plain = package.diagnose(z, s, pseudo=pseudo)
    known = package.diagnose(z, s, pseudo=pseudo, prior=50 / 170)
    assert plain.limits is None and known.limits is not None
    assert known.messages == (*plain.messages, *known.limits.messages)
    unit = F.normalize(z, dim=1)
    assert known.limits.geometry.separation == separation(unit[s], unit[~positive])
    assert (known.limits.n_labelled, known.limits.n_unlabelled) == (30, 170)
    left_out = package.diagnose(z, s, prior=0.3, negatives=torch.arange(190, 200).numpy())
    assert left_out.limits is not None and left_out.limits.n_unlabelled == 160
    with pytest.raises(InputError, match=r"pucl\.diagnose: prior must be a number within \[0, 1\]; got 1\.5"):
        package.diagnose(z, s, prior=1.5)


def test_a_model_is_diagnosed_from_its_folder(pucl: Command, tmp_path: Path) -> None:
    model = table_model(tmp_path, prior=0.3)
    save_model(tmp_path / "model", model)
    found = load_model(tmp_path / "model").diagnose()
    assert found.findings == model.record.diagnostics and found == model.diagnose()
    assert found.limits.prior == (0.3, 0.3) and found.limits.geometry.alignment is None
    assert found.limits.geometry.uniformity is not None and found.limits.bias is not None
    shown = pucl("diagnose", "model")
    assert (shown.code, shown.err) == (0, "") and shown.out == f"{found}\n"
    assert "with 20 labelled positives among 60 rows" in shown.out
    content = json.loads(pucl("diagnose", "model", "--json").out)
    assert content["kappa"] == list(found.limits.kappa) and content["messages"] == list(found.limits.messages)
    assert content["geometry"]["alignment"] is None and content["findings"] == list(found.findings)


def test_alignment_is_that_at_the_end_of_training(tmp_path: Path) -> None:
    model = table_model(tmp_path, prior=0.3)
    history = (EpochRecord(1, alignment=0.9), EpochRecord(2, alignment=0.4), EpochRecord(3, loss=1.0))
    trained = diagnose_model(replace(model.record, history=history), model.evidence).limits
    assert trained.geometry.alignment == 0.4 and any(each.startswith("Alignment: 0.40") for each in trained.messages)
    without = diagnose_model(model.record, None).limits
    assert without.geometry == Geometry() and without.bias is None and without.kappa == trained.kappa


def test_the_report_has_a_section_on_theory(tmp_path: Path) -> None:
    model = table_model(tmp_path, prior=0.3)
    page = write_report(tmp_path / "report.html", model).read_text(encoding="utf-8")
    assert '<section id="theory"' in page and '<a href="#theory">Theory</a>' in page
    for message in model.diagnose().limits.messages:
        assert message.split(":")[0] in page
    bounded = replace(model, record=bounded_record(table()), evidence=evidence_of(table()))
    page = write_report(tmp_path / "bounded.html", bounded).read_text(encoding="utf-8")
    assert "at most 46 % of them are positive" in page
    assert "Separation of the centroids: unknown" in page  # points laid out before have no embeddings any more
