"""The invariants of ARCHITECTURE.md."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pucl.registry import entries

from conftest import ROOT, SRC

PACKAGE = SRC / "pucl"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Data flows one way: a module may import from its own part and from parts of earlier lines only.
LAYERS = (
    ("errors", "files", "formulas"),
    ("deprecation",),
    ("registry", "labels", "seeds", "device", "weights", "cache"),
    ("distributed", "numerics"),
    ("engines",),
    ("texts",),
    ("data",),
    ("views",),
    ("encoders",),
    ("losses", "risks"),
    ("training",),
    ("priors",),
    ("ranking",),
    ("pseudo_labels",),
    ("heads",),
    ("metrics", "selection"),
    ("models",),
    ("report",),
    ("fitting",),
    ("review",),
    ("baselines",),
    ("estimators",),
    ("bench", "theory"),
    ("cli",),
    ("__main__",),
)
RANK = {part: rank for rank, line in enumerate(LAYERS) for part in line}
MAY_HOLD_TRUTH = {"data", "metrics", "bench", "theory"}
TRUTH = {"y", "y_true", "y_train", "y_test", "truth"}

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
        elif isinstance(node, ast.ImportFrom):
            pytest.fail("relative imports hide the direction of the data flow")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@every_module
def test_every_module_keeps_the_rules(path: Path) -> None:
    """One test for all rules of a module, which is read and parsed once."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    imports_point_one_way(path, nodes)
    assert len(text.splitlines()) <= 400, "modules are short"
    functions_are_short(path, nodes)
    truth_stays_where_it_belongs(path, nodes)
    no_mutable_module_state(path, tree, nodes)
    doc = ast.get_docstring(tree)
    assert doc and len(doc.splitlines()[0]) > 20, "the first line says what the module is for"


def imports_point_one_way(path: Path, nodes: list[ast.AST]) -> None:
    part = part_of(path)
    if part == "__init__":  # the public face, which only names where things live
        return
    assert part in RANK, f"{part} has no place in the layers"
    for module in imports(nodes):
        if module.startswith("pucl."):
            other = module.split(".")[1]
            assert other == part or RANK[other] < RANK[part], f"{part} must not import {other}"


def functions_are_short(path: Path, nodes: list[ast.AST]) -> None:
    """At most 60 lines, docstring included; of commands only the body, since every option takes lines of signature."""
    if "kernels" in path.parts:
        return
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            start = node.body[0].lineno if part_of(path) == "cli" else node.lineno
            assert (node.end_lineno or 0) - start < 60, f"{node.name} is too long"


def truth_stays_where_it_belongs(path: Path, nodes: list[ast.AST]) -> None:
    if part_of(path) in MAY_HOLD_TRUTH:
        return
    names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert not names & TRUTH


def no_mutable_module_state(path: Path, tree: ast.Module, nodes: list[ast.AST]) -> None:
    if path.name == "registry.py":
        return
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, mutable):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            assert ast.unparse(target) == "__all__"
    assert not any(isinstance(node, ast.Global) for node in nodes)


def test_the_map_names_every_part_in_order() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.split("## The map")[1].split("## ")[0]
    first_cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    parts = [name.removesuffix("/") for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    assert parts == [part for line in LAYERS for part in line]


def test_no_utils() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "helpers", "common", "misc"}]


@pytest.mark.parametrize("family", ["losses", "priors", "rankers"])
def test_equation_in_the_docstring(family: str) -> None:
    for entry in entries(family).values():
        doc = entry.function.__doc__ or ""
        assert re.search(r"^ {8,}\S.* = ", doc, re.MULTILINE), f"{entry.name}: no equation in an indented line"
        assert re.search(r"\bwhere\b", doc), f"{entry.name}: the symbols are not explained"


IMPORT_ALL = """
import importlib, pkgutil, socket
def refuse(*args, **kwargs):
    raise RuntimeError("network at import")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import pucl
for module in pkgutil.walk_packages(pucl.__path__, "pucl."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:  # kernels for other hardware
        assert error.name == "triton", error
"""


def test_import_prints_and_downloads_nothing() -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


HELP = "from pucl.cli.app import app; app(['--help'], standalone_mode=False)"


@pytest.mark.parametrize("code", ["import pucl", HELP], ids=["import", "help"])
def test_nothing_heavy_is_loaded_early(code: str) -> None:
    check = "import sys; print([m for m in ('torch', 'sklearn', 'numpy', 'matplotlib') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


TRAIN_AND_LABEL = """
import torch
from pucl.heads import fit_head
from pucl.pseudo_labels import pseudo_label
from pucl.registry import entries
from pucl.training import TrainConfig, pretrain
entries("views")
for optimiser in ("lars", "sgd"):
    config = TrainConfig(epochs=1, batch_size=16, optimiser=optimiser)
    pretrain(torch.rand(32, 1, 8, 8), torch.arange(32) < 8, config=config, device="cpu")
z, s = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) < 15
fit_head(z, s, pseudo_label(z, s, repeats=1))
"""


@pytest.mark.slow
def test_training_and_labelling_load_no_compiler() -> None:
    check = "import sys; print(*(m for m in ('torch._dynamo', 'sympy') if m in sys.modules))"
    known = "import torch.utils.checkpoint"  # which training takes: some versions of torch load sympy with it
    loaded = [
        subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True)
        for code in (known, TRAIN_AND_LABEL)
    ]
    allowed, found = (run.stdout.splitlines()[-1].split() for run in loaded)
    assert found == allowed and "torch._dynamo" not in allowed


def test_public_names_are_all_there() -> None:
    import pucl

    assigned = [node for node in parse(PACKAGE / "__init__.py").body if isinstance(node, ast.Assign)]
    (homes,) = (node.value for node in assigned if ast.unparse(node.targets[0]) == "_HOME")
    assert sorted(name for name, _ in ast.literal_eval(homes)) == sorted(pucl.__all__)
    for name in pucl.__all__:
        assert getattr(pucl, name).__doc__
        assert name in dir(pucl)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pucl.nothing


def test_the_repository_has_no_machine_paths() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"/(?:home|root|work|Users)/\w")
    texts = [ROOT / name for name in tracked if (ROOT / name).suffix in {".py", ".md", ".toml", ""}]
    assert not [path for path in texts if path.is_file() and pattern.search(path.read_text(encoding="utf-8"))]
