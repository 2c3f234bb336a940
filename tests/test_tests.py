"""Rules for the tests themselves: short files, only public names, nothing from another test file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT

FILES = sorted((ROOT / "tests").glob("*.py"))
OF_NAMED_TUPLES = {"_fields", "_replace", "_asdict"}  # public in spite of their names

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in OF_NAMED_TUPLES


def imported(tree: ast.AST) -> dict[str, str]:
    """What a file calls its imports → where they come from."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def private_names(tree: ast.AST) -> Iterator[str]:
    """Private names of pucl or of a file of the tests that are imported, read or patched."""
    own = {name: home for name, home in imported(tree).items() if home.split(".")[0] in {"pucl", *MODULES_OF_TESTS}}
    yield from (home for home in own.values() if any(map(is_private, home.split("."))))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and root_of(node) in own:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            name = node.args[1].value
            if root_of(node.args[0]) in own and isinstance(name, str) and is_private(name):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and is_path_to_private(str(node.value)):
            yield str(node.value)


def is_path_to_private(text: str) -> bool:
    return text.startswith("pucl.") and " " not in text and any(map(is_private, text.split(".")))


def root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


MODULES_OF_TESTS = {path.stem for path in FILES}


@every_file
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@every_file
def test_only_public_names_are_used(path: Path) -> None:
    assert not list(private_names(ast.parse(path.read_text(encoding="utf-8"))))


@every_file
def test_nothing_comes_from_another_test_file(path: Path) -> None:
    homes = imported(ast.parse(path.read_text(encoding="utf-8"))).values()
    assert not [home for home in homes if home.startswith("test_")]
