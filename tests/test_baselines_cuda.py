"""Every baseline on a GPU: its step recorded as a graph, as good as on a CPU."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

import pucl
from baseline_examples import SIMPLE, fit, naive, sample
from pucl.baselines import fit_baseline
from pucl.registry import Entry, entries

BASELINES = entries("baselines")
pytestmark = pytest.mark.cuda


def accuracy(task: str, scorer: nn.Module) -> float:
    data = sample(task)[0]
    return pucl.evaluate(data.y_test, scorer(torch.as_tensor(data.x_test).cuda()).cpu()).accuracy


@pytest.mark.parametrize("entry", BASELINES.values(), ids=list(BASELINES))
def test_learns_on_a_card(entry: Entry) -> None:
    if entry.name in SIMPLE:
        pytest.skip("what the others are compared with")
    _, scorer = fit(entry.name, "digits", device="cuda")
    assert accuracy("digits", scorer) > naive("digits") + 0.1


@pytest.mark.parametrize("entry", BASELINES.values(), ids=list(BASELINES))
def test_takes_images_in_colour_with_the_author_s_network(entry: Entry) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 200, (600, 3, 32, 32), generator=generator, dtype=torch.uint8)
    positive = torch.arange(600) % 2 == 0
    x[positive, 0] += 50
    quick: dict[str, Any] = {"epochs": 2, "steps": 6, "batch_size": 64}
    more = ("first_epochs", "first_steps", "warm_epochs", "mix_epochs")  # of methods that train more than once
    known = {field.name for field in fields(pucl.settings_of(entry.name))}
    quick |= {name: 2 for name in more if name in known}
    scorer = fit_baseline(
        entry.name,
        x,
        positive & (torch.arange(600) < 200),
        prior=0.4,
        settings=pucl.settings_of(entry.name, "cifar3", **quick),
        device="cuda",
    )
    assert scorer(x.cuda()).isfinite().all()
