"""Seeded draws leave nothing behind: on no device, and not in memory."""

import ast

import pytest
import torch
from torch import nn

from pucl.encoders import make_encoder
from pucl.seeds import seeded

from conftest import SRC

PEERS = {"bench/tables/measure.py"}  # where other people's methods may draw on any device


def test_draws_are_those_of_manual_seed_and_the_global_generator_stays() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = torch.randn(5)
    before = torch.get_rng_state()
    with seeded(7):
        assert torch.equal(torch.randn(5), expected)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_is_made_without_seeding_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would seed a GPU that the caller draws on, and adds to a list for every device that is not there."""

    def fail(_: int) -> None:
        raise AssertionError("another device was seeded")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", fail)
    monkeypatch.setattr(torch.xpu, "manual_seed_all", fail)
    assert isinstance(make_encoder("mlp", (4,), seed=1), nn.Module)


def test_nothing_seeds_all_devices() -> None:
    for path in sorted((SRC / "pucl").rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
        seeds_all = "torch.manual_seed" in {ast.unparse(call.func) for call in calls}
        assert seeds_all == (path.relative_to(SRC / "pucl").as_posix() in PEERS), path
