"""The lowest and the pinned versions agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?(==|>=)([\w.]+)")


def required() -> dict[str, str]:
    """The packages that `make test` needs, and the lowest version of each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return named((*project["dependencies"], *extras["plots"], *extras["dev"]), ">=")


def named(lines: tuple[str, ...] | list[str], sign: str) -> dict[str, str]:
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(match is not None and match[2] == sign for match in matches), lines
    return {match[1].lower().replace("_", "-"): match[3] for match in matches if match is not None}


def held_in(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return named([line for line in lines if line and not line.startswith("#")], "==")


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def test_every_requirement_has_its_lowest_version() -> None:
    lowest = held_in("constraints-lowest.txt")
    for name, version in required().items():
        assert numbers(lowest[name])[: len(numbers(version))] == numbers(version), name


@pytest.mark.parametrize("name", required())
def test_every_requirement_is_pinned(name: str) -> None:
    pinned, lowest = held_in("constraints.txt")[name], required()[name]
    assert numbers(pinned) >= numbers(lowest)


def test_what_is_pinned_is_a_version_and_nothing_else() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text and "+" not in text and "--" not in text
    assert len(held_in("constraints.txt")) > 60
