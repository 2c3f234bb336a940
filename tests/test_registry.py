"""Registries by folder scan: a file added or removed is all it takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pucl.errors import InputError
from pucl.registry import FAMILIES, entries, get, register

from conftest import ROOT, environment

WRONG_GRADIENT = '''"""A loss whose gradient is not that of its value."""

import torch
from torch import Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import register


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


@register("losses", reference="nowhere")
def crooked(pairs: Pairs, *, temperature: float) -> Tensor:
    """Wrong.

        ℓ_i = log Z(z_i) − z_i · z_a(i) / τ

    where the gradient is doubled.
    """
    return Doubled.apply(pairs.loss_towards(pairs.partner, temperature))
'''


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_entries_with_metadata(family: str) -> None:
    found = entries(family)
    assert found and list(found) == sorted(found)
    for name, entry in found.items():
        assert entry.name == name and entry.family == family and entry.inputs
        assert 10 < len(entry.summary) <= 100, f"{family} {name}: the summary is one line of at most 100 characters"
        assert entry.reference


def test_unknown_names_are_answered() -> None:
    with pytest.raises(InputError, match="unknown family 'losess': did you mean 'losses'"):
        entries("losess")
    with pytest.raises(InputError, match="unknown encoder 'mpl': did you mean 'mlp'"):
        get("encoders", "mpl")
    with pytest.raises(InputError, match="unknown family 'loss'"):
        register("loss", reference="")
    with pytest.raises(InputError, match="inputs must be"):
        register("losses", reference="", inputs=("sound",))


def test_a_name_cannot_be_taken_twice() -> None:
    entries("losses")  # are there, whatever ran before

    def sscl() -> None: ...

    with pytest.raises(InputError, match=r"name must be new in its family; got 'sscl', taken by pucl\.losses\.sscl"):
        register("losses", reference="")(sscl)
    assert get("losses", "sscl").function is not sscl


def listed(source: Path) -> list[str]:
    command = [sys.executable, "-m", "pucl", "list", "losses", "--json"]
    out = subprocess.run(command, env=environment(source), capture_output=True, text=True, check=True).stdout
    return [entry["name"] for entry in json.loads(out)["losses"]]


def contract(source: Path, *select: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(ROOT / "tests/test_contract_losses.py")]
    return subprocess.run([*command, *select], env=environment(source), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_removed_loss_leaves_the_command_and_the_tests(package_copy: Path) -> None:
    assert "sscl" in listed(package_copy)
    (package_copy / "pucl/losses/sscl.py").unlink()
    assert "sscl" not in listed(package_copy)
    run = contract(package_copy, "-vv")  # says the name of every test it runs
    assert run.returncode == 0, run.stdout
    assert "[sscl" not in run.stdout and "[pucl" in run.stdout


@pytest.mark.slow
def test_an_added_loss_with_a_wrong_gradient_fails_the_tests(package_copy: Path) -> None:
    (package_copy / "pucl/losses/crooked.py").write_text(WRONG_GRADIENT, encoding="utf-8")
    assert "crooked" in listed(package_copy)
    run = contract(package_copy, "-k", "crooked")
    assert run.returncode == 1, run.stdout
    assert "FAILED" in run.stdout and "test_gradient_is_that_of_the_value" in run.stdout
