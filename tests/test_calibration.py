"""Calibration of a head to a class prior."""

import math
from typing import Any

import pytest
import torch
from torch import Generator

from head_examples import known, two_gaussians
from pucl.errors import InputError
from pucl.heads import fit_head
from pucl.heads.calibration import Calibrated, calibrate


@pytest.mark.parametrize("prior", [0.001, 0.3, 0.9])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_calibration_meets_the_prior(prior: float, temperature: float) -> None:
    logits = torch.randn(5000, generator=Generator().manual_seed(0)) * 20 + 7
    shift = calibrate(logits, prior, temperature=temperature)
    assert float(torch.sigmoid(logits.double() / temperature + shift).mean()) == pytest.approx(prior, abs=1e-6)
    # A constant score can be calibrated too, and the bracket is then a point.
    assert calibrate(torch.zeros(3), prior) == pytest.approx(math.log(prior / (1 - prior)), abs=1e-9)


def test_calibrated_head_agrees_with_itself() -> None:
    z, labelled, y = two_gaussians(3000, gap=2.0, n_labelled=300)
    head = fit_head(z, labelled, known(labelled, y, 0.4))
    calibrated = Calibrated.of(head, z, labelled, prior=0.25)
    probability, logits = calibrated.probability(z), calibrated(z)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert torch.equal(probability > 0.5, logits > 0)
    assert float(probability[~labelled].mean()) == pytest.approx(0.25, abs=1e-6)
    assert torch.equal(logits.argsort(), head(z).argsort()), "calibration keeps the order"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((torch.rand(5), 0), "prior must be a number strictly between 0 and 1; got 0"),
        ((torch.rand(5), None), "prior must be a number strictly between 0 and 1; got None"),
        ((torch.rand(5, 1), 0.5), "logits must be a floating-point vector (n,) with n ≥ 1"),
        ((torch.rand(0), 0.5), "logits must be a floating-point vector (n,) with n ≥ 1"),
        ((torch.tensor([0.0, float("nan")]), 0.5), "logits must be finite; got NaN or infinity"),
    ],
)
def test_bad_calibration(call: tuple[Any, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        calibrate(*call)
    assert message in str(caught.value)
