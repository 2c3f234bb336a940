"""The command ``pucl data``: what is there, and what cannot be fetched."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dataset_examples import noise, write_idx
from pucl.data.sources import SOURCES


def pucl(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    nowhere = "http://127.0.0.1:9"  # no network: every request goes to a closed port
    environment = {**os.environ, "PUCL_DATA": str(root), "http_proxy": nowhere, "https_proxy": nowhere, "no_proxy": ""}
    command = [sys.executable, "-m", "pucl", "data", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_data_list(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(tmp_path / "MNIST" / "raw", part, noise(10, 28, 28), range(10))
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(b"12345")
    run = pucl(tmp_path, "list", "--json")
    assert run.returncode == 0 and run.stderr == ""
    found = {row["name"]: row for row in json.loads(run.stdout)["datasets"]}
    assert list(found) == [source.name for source in SOURCES]
    assert found["mnist"]["state"] == "present" and found["mnist"]["bytes"] > 7000
    assert found["cifar10"]["state"] == "incomplete" and found["cifar10"]["bytes"] == 5
    assert found["svhn"]["state"] == "absent" and found["svhn"]["missing"] == ["train_32x32.mat", "test_32x32.mat"]
    table = pucl(tmp_path, "list")
    assert table.returncode == 0 and "cifar_medium" in table.stdout and "incomplete" in table.stdout


@pytest.mark.parametrize("name", ["svhn", "cifar1", "mnist", "imagenet2"])
def test_prepare_without_network_is_one_line(tmp_path: Path, name: str) -> None:
    run = pucl(tmp_path, "prepare", name)
    assert run.returncode == 2 and run.stdout == "" and run.stderr.count("\n") == 1
    assert "cannot fetch http" in run.stderr and "refused" in run.stderr
    assert not any(tmp_path.iterdir())


def test_prepare_names_a_damaged_file(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(tmp_path / "MNIST" / "raw", part, noise(10, 28, 28), range(10))
    run = pucl(tmp_path, "prepare", "mnist1")
    assert run.returncode == 2 and run.stderr.count("\n") == 1
    assert re.search("train-images-idx3-ubyte.gz: not the official file; expected MD5 f68b3c2d.*found", run.stderr)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cifar11", "unknown data set 'cifar11': did you mean 'cifar"),
        ("imagenet1", "get it from https://www.image-net.org/download.php or set PUCL_DATA"),
    ],
)
def test_prepare_what_cannot_be_had(tmp_path: Path, name: str, text: str) -> None:
    run = pucl(tmp_path, "prepare", name)
    assert run.returncode == 2 and run.stderr.count("\n") == 1 and text in run.stderr


def test_help_has_examples(tmp_path: Path) -> None:
    for words in (("--help",), ("list", "--help"), ("prepare", "-h")):
        run = pucl(tmp_path, *words)
        assert run.returncode == 0 and "Example: pucl data" in run.stdout
    assert "prepare" in pucl(tmp_path).stdout
