"""Everything a baseline is given lies on one device."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import pucl.baselines
from pucl.baselines import Settings, fit_baseline
from pucl.baselines.shared.training_problem import PUProblem
from pucl.registry import Entry, get


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))


def test_all_of_a_problem_is_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without memory stands for a GPU: what was left on the CPU is seen there, too."""
    place, given = torch.device("meta"), []

    def method(problem: PUProblem, settings: Settings = Settings()) -> nn.Module:  # noqa: ARG001, B008
        given.append(problem)
        return Nothing()

    def entry_of(family: str, name: str) -> Entry:
        entry = get(family, name)
        return replace(entry, function=method) if (family, name) == ("baselines", "naive") else entry

    monkeypatch.setattr(pucl.baselines, "pick_device", lambda _: place)
    monkeypatch.setattr(pucl.baselines, "fits", lambda *_: True)
    monkeypatch.setattr(pucl.baselines, "get", entry_of)
    fit_baseline("naive", torch.rand(20, 3), torch.arange(20) < 5)
    (problem,) = given
    lying = [problem.x, problem.labelled, *problem.standardise.buffers()]
    assert len(lying) > 2 and {tensor.device for tensor in lying} == {place}


@pytest.mark.cuda
def test_neighbours_on_a_card_agree_with_those_on_a_cpu() -> None:
    g = torch.Generator().manual_seed(0)
    labelled = torch.arange(300) < 40
    x = torch.randn(300, 12, generator=g) + 3 * (labelled | (torch.arange(300) % 3 == 0))[:, None]
    slow, quick = (fit_baseline("neighbours", x, labelled, prior=0.33, device=place) for place in ("cpu", "cuda"))
    assert ((slow(x) > 0) == (quick(x.cuda()).cpu() > 0)).float().mean() > 0.97
