"""Views: bad options, bad rows, and the names views are known by."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pucl.errors import InputError
from pucl.views import known_as, make_view
from view_examples import images, seeded


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("simclr", {"scale": (0, 1)}, "view 'simclr': scale must be two numbers 0 < low ≤ high ≤ 1; got (0, 1)"),
        (
            "simclr",
            {"scale": (0.5, 1.1)},
            "view 'simclr': scale must be two numbers 0 < low ≤ high ≤ 1; got (0.5, 1.1)",
        ),
        (
            "simclr",
            {"scale": (0.5, 0.2)},
            "view 'simclr': scale must be two numbers 0 < low ≤ high ≤ 1; got (0.5, 0.2)",
        ),
        ("simclr", {"scale": 0.5}, "view 'simclr': scale must be two numbers 0 < low ≤ high ≤ 1; got 0.5"),
        ("simclr", {"aspect": (2, 1)}, "view 'simclr': aspect must be two numbers 0 < low ≤ high; got (2, 1)"),
        ("simclr", {"sigma": (0.0, 1.0)}, "view 'simclr': sigma must be two numbers 0 < low ≤ high; got (0.0, 1.0)"),
        ("simclr", {"flip": 1.5}, "view 'simclr': flip must be a number within [0, 1]; got 1.5"),
        ("simclr", {"jitter": -0.1}, "view 'simclr': jitter must be a number within [0, 1]; got -0.1"),
        ("simclr", {"greyscale": "no"}, "view 'simclr': greyscale must be a number within [0, 1]; got 'no'"),
        ("simclr", {"blur": math.nan}, "view 'simclr': blur must be a number within [0, 1]; got nan"),
        ("simclr", {"hue": -0.1}, "view 'simclr': hue must be a finite number ≥ 0; got -0.1"),
        ("simclr", {"strength": None}, "view 'simclr': strength must be a finite number ≥ 0; got None"),
        ("scarf", {"corruption": 2}, "view 'scarf': corruption must be a number within [0, 1]; got 2"),
        ("scarf", {"noise": -1}, "view 'scarf': noise must be a finite number ≥ 0; got -1"),
        ("feature_noise", {"swap": 2}, "view 'feature_noise': swap must be a number within [0, 1]; got 2"),
        ("vector", {"dropout": 1}, "view 'vector': dropout must be a number in [0, 1); got 1"),
        ("vector", {"dropout": -1}, "view 'vector': dropout must be a number in [0, 1); got -1"),
        ("vector", {"mix": 1.1}, "view 'vector': mix must be a number within [0, 1]; got 1.1"),
        ("vector", {"neighbours": 0.5}, "view 'vector': neighbours must be a whole number ≥ 0; got 0.5"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    x = images(2, 3, 4, 4) if name == "simclr" else images(2, 4)
    with pytest.raises(InputError) as caught:
        make_view(name, **options)(x, seeded())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "x", "message"),
    [
        ("simclr", torch.rand(3, 8, 8), r"got shape \(3, 8, 8\) of torch.float32"),
        ("simclr", torch.rand(2, 4, 8, 8), r"images \(n, c, h, w\) with c = 1 or 3"),
        ("simclr", torch.ones(2, 3, 8, 8).long(), "as uint8 or float"),
        ("scarf", torch.ones(2, 3).long(), r"view 'scarf': x must be rows \(n, d\) of floating-point features"),
        ("vector", torch.rand(2, 3, 4), r"got shape \(2, 3, 4\) of torch.float32"),
    ],
)
def test_bad_input(name: str, x: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_view(name)(x, seeded())


def test_a_registered_view_is_known_by_name_and_options() -> None:
    assert known_as("simclr") == known_as(make_view("simclr")) == "simclr"
    assert known_as(make_view("simclr", scale=(0.6, 1.0), flip=0.0)) == "simclr(flip=0.0, scale=(0.6, 1.0))"
    assert known_as(lambda x, _: x) is None
