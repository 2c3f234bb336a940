"""Nothing outside the target is written, nothing unchecked is fetched, and no cell of a CSV file is a formula."""

import csv
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_examples import random_model, table_model, table_rows, write_table
from pucl.data.download import prepare
from pucl.data.sources import SOURCES, Archive, Source, md5_of
from pucl.encoders.frozen.resolve import build
from pucl.errors import InputError, RunWarning
from pucl.formulas import is_formula, marked, unmarked
from pucl.models.folder import UNFINISHED, load_model, save_model
from pucl.models.folders import Folder, find_tables
from pucl.models.model import Model
from pucl.models.schema import Schema
from pucl.models.scoring import score_to_file
from pucl.models.swap import NEW, READY
from pucl.texts.from_hf import TextNetwork

RUN = (
    '=HYPERLINK("http://example.org/?"&A1)', "=1+1", "=cmd|'/C calc'!A0", "@SUM(1+1)*cmd|'/C calc'!A0",
    "-2+3+cmd|' /C x'!A0",
    "+IMPORTXML(A1)", "\t=1+1", "\r=1+1", "\n@SUM(A1)", " =A1", "＝1+1", "＋SUM(A1)", "\ufeff=1",
    "-[book.xlsx]Sheet1!A1",
    "'=1+1", "''@SUM(A1)", "+ZUFALLSZAHL()", "=",
)  # fmt: skip
HARMLESS = (
    "", "a", "-", "-5", "+3.2e-4", "-x7Qa_9", "@name", "+49 170 1234", "+49 (170) 1234", "'t Hooft", "'", "-0.5 (0.1)",
    "a=b", "x@y.org", "1-SUM(A1)", "−5", "r-17", "--", "'-5",
)  # fmt: skip


@pytest.mark.parametrize("text", RUN)
def test_what_a_spreadsheet_would_run_is_marked(text: str) -> None:
    assert is_formula(text) and marked(text) == f"'{text}" and unmarked(marked(text)) == text


@pytest.mark.parametrize("text", HARMLESS)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert not is_formula(text) and marked(text) == text and unmarked(text) == text


def test_no_two_texts_become_one() -> None:
    texts = ["'" * n + text for n in range(4) for text in (*RUN, *HARMLESS)]
    assert len({marked(text) for text in texts}) == len(set(texts))
    assert [unmarked(marked(text)) for text in texts] == texts


@pytest.mark.parametrize("top", [None, 5])
def test_ids_in_scores_come_back(top: int | None, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = table_rows()
    ids = [text for text in dict.fromkeys((*RUN, *HARMLESS)) if text.strip("\r\n\t \ufeff") == text and text]
    for row, text in zip(rows, ids, strict=False):
        row[0] = text
    source = write_table(tmp_path / "rows.csv", rows)
    model = table_model(tmp_path)
    with pytest.warns(RunWarning, match=r"texts that a spreadsheet would run as a formula, such as '=HYPERLINK\("):
        score_to_file(model, source, tmp_path / "scores.csv", id_column="id", top=top)
    with (tmp_path / "scores.csv").open(encoding="utf-8", newline="") as file:
        written = [row[0] for row in csv.reader(file)][1:]
    assert [unmarked(text) for text in written] == [row[0] for row in rows]
    assert not any(text.lstrip().startswith("=") for text in written)
    score_to_file(model, source, tmp_path / "scores.parquet", id_column="id", top=top)
    assert list(pandas.read_parquet(tmp_path / "scores.parquet")["id"]) == [row[0] for row in rows]


def archive(path: Path, *members: tarfile.TarInfo) -> Path:
    """A tar file with the folders of a data set, and members that want to be elsewhere."""
    with tarfile.open(path, "w:gz") as tar:
        for part in ("mine", "mine/train"):
            folder = tarfile.TarInfo(part)
            folder.type = tarfile.DIRTYPE
            folder.mode = 0o755
            tar.addfile(folder)
        for member in members:
            tar.addfile(member, io.BytesIO(b"bad") if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    info.size = 3 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    "members",
    [
        (member("../out"),),
        (member("mine/../../../out"),),
        (member("mine/train/a", tarfile.SYMTYPE, "../../../../out"),),
        (member("mine/train/a", tarfile.SYMTYPE, "/etc/passwd"),),
        (member("mine/b", tarfile.LNKTYPE, "../../out"),),
        (member("mine/fifo", tarfile.FIFOTYPE),),
        (member("mine/link", tarfile.SYMTYPE, "../.."), member("mine/link/out")),
    ],
    ids=["parent", "parent inside", "link", "absolute link", "hard link", "pipe", "through a link"],
)
def test_an_archive_writes_nothing_outside_its_folder(
    members: tuple[tarfile.TarInfo, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setenv("PUCL_DATA", str(root))
    packed = archive(root / "a.tgz", *members)  # it is there already, as if it had been fetched
    source = Source(
        "mine", ("t",), "page", ("mine",), (), ("train",), Archive("file:///none/a.tgz", md5_of(packed), "mine")
    )
    with pytest.raises(InputError, match="cannot unpack it: "):
        prepare(source)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == ["root", "root/a.tgz"]


def test_an_absolute_name_stays_below_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    monkeypatch.setenv("PUCL_DATA", str(root))
    packed = archive(root / "a.tgz", member(str(outside)))
    prepare(
        Source("mine", ("t",), "page", ("mine",), (), ("train",), Archive("file:///none/a.tgz", md5_of(packed), "mine"))
    )
    assert not outside.exists() and (root / "mine" / "train").is_dir()


def test_whatever_is_fetched_has_a_checksum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path))
    for source in SOURCES:
        assert source.archive is None or len(source.archive.md5) == 32
        assert all(len(file.md5) == 32 for file in source.files)
    unchecked = [source.name for source in SOURCES if source.command is None]
    assert "imagewoof" in unchecked  # two checksums of its archive are in use
    with pytest.raises(InputError, match="imagewoof: train is missing.*get it from https://"):
        prepare(next(source for source in SOURCES if source.name == "imagewoof"))


@pytest.fixture
def model() -> Model:
    return random_model(Schema("vector", (4,)), "raw")


@pytest.mark.parametrize("name", [NEW, READY, UNFINISHED, f"{UNFINISHED}/pretraining"])
def test_a_model_is_not_saved_through_a_link(name: str, model: Model, tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside"
    save_model(folder, model)
    outside.mkdir()
    (outside / "model.json").write_text("{}", encoding="utf-8")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(outside, target_is_directory=True)
    with pytest.raises(
        InputError, match=rf"must be a folder whose parts are its own; got one with the link \{name} in it"
    ):
        save_model(folder, model)
    assert [path.name for path in outside.iterdir()] == ["model.json"]
    assert (outside / "model.json").read_text(encoding="utf-8") == "{}"


def test_a_link_in_place_of_a_file_is_replaced(model: Model, tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside"
    save_model(folder, model)
    outside.write_bytes((folder / "head.safetensors").read_bytes())
    kept = outside.read_bytes()
    (folder / "head.safetensors").unlink()
    (folder / "head.safetensors").symlink_to(outside)
    load_model(folder)  # what is read is compared with its checksum, wherever it lies
    save_model(folder, random_model(Schema("vector", (4,)), "raw", "mlp"))
    assert outside.read_bytes() == kept and not (folder / "head.safetensors").is_symlink()
    outside.write_bytes(b"changed")
    (folder / "head.safetensors").unlink()
    (folder / "head.safetensors").symlink_to(outside)
    with pytest.raises(InputError, match="must be the file model.json was written for"):
        load_model(folder)


def test_scores_replace_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    source, outside, out = write_table(tmp_path / "rows.csv"), tmp_path / "outside.csv", tmp_path / "scores.csv"
    outside.write_text("mine", encoding="utf-8")
    out.symlink_to(outside)
    score_to_file(table_model(tmp_path), source, out, id_column="id")
    assert outside.read_text(encoding="utf-8") == "mine" and not out.is_symlink()


def test_names_of_an_object_store_stay_below_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = dict.fromkeys(("a.csv", "../b.csv", "x/../../c.csv", "x/d.csv", "/e.csv"), 0)
    monkeypatch.setattr(Folder, "files", lambda *_, **__: listed)
    _, found = find_tables(str(tmp_path), "pucl.score_files")
    assert list(found) == ["a.csv", "x/d.csv"]


@pytest.mark.parametrize(
    "name", ["../a.json", "/a.json", "x/../../a.json", "a.py", "..\\a.json", "~/a.json", "a\x00.json"]
)
def test_files_of_a_stored_text_network_stay_in_their_folder(name: str) -> None:
    with pytest.raises(ValueError, match="no file of a text encoder"):
        TextNetwork.load({name: np.zeros(3, dtype=np.uint8)})


@pytest.mark.parametrize("target", ["hf-hub:someone/else", "local-dir:/etc", "hf_hub:a/b"])
def test_a_stored_name_of_timm_fetches_nothing(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from frozen_examples import stand_in_timm

    stand_in_timm(monkeypatch)
    settings: dict[str, Any] = {"size": [12, 12], "mean": [0.5] * 3, "std": [0.2] * 3, "mode": "bilinear"}
    build("timm:tiny", (3, 12, 12), **settings)
    with pytest.raises(InputError, match="timm has no model"):
        build(f"timm:{target}", (3, 12, 12), **settings)


def test_nothing_that_pucl_runs_reports_to_anybody(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    code = "import pucl, onnxruntime"
    subprocess.run([sys.executable, "-c", code], env={**environment, "TMPDIR": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []
