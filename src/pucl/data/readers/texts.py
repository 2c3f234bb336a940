"""Labelled texts: tables of Orange with a class and a text in every line, and folders of .txt files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.sources import damaged
from pucl.data.tasks import Split

HEAD = ("Category\tText", "d\tstring", "class\t")  # the first lines of a table: its columns, their types and roles


def read_tab_split(path: Path, names: Sequence[str]) -> Split:
    """The texts of a table and, for each, the place of its class in `names`; another class is an error."""
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise damaged(path, f"not a text in UTF-8 ({error.reason})") from error
    if tuple(lines[:3]) != HEAD:
        raise damaged(path, f"not a table of Orange with the columns {' and '.join(HEAD[0].split())}")
    known = {name: place for place, name in enumerate(names)}
    classes, texts = [], []
    for number, line in enumerate(lines[3:], start=4):
        if not line:
            continue
        name, tab, text = line.partition("\t")
        if name not in known or not tab:
            raise damaged(path, f"line {number} is not a known class and a text")
        classes.append(known[name])
        texts.append(text)
    return Split(_as_array(texts), np.array(classes, np.int64))


def read_text_folders(folders: Sequence[Path]) -> Split:
    """The .txt files of every folder, by name; the place of the folder is the class."""
    files = [(path, label) for label, folder in enumerate(folders) for path in sorted(folder.glob("*.txt"))]
    texts = _as_array([path.read_text(encoding="utf-8", errors="replace") for path, _ in files])
    return Split(texts, np.array([label for _, label in files], np.int64))


def _as_array(texts: Sequence[str]) -> NDArray[np.object_]:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array
