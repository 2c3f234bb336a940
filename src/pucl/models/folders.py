"""Folders of tables on any file system that pyarrow knows: their files, as local ones to read and to write."""

import fnmatch
import glob
import json
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pucl.data.own.batch import need
from pucl.data.own.files import is_pattern
from pucl.data.own.scan import SUFFIXES
from pucl.errors import Described, InputError, RunError, bad_argument
from pucl.files import replace_file

WILD = "*?["  # of which one makes a path a pattern
READ = (*SUFFIXES, ".npy", ".npz")
HIDDEN = "._"  # first letters of files and folders that other programs keep beside the tables


@dataclass(frozen=True)
class Folder:
    """A folder, and the file system of pyarrow that it is on; None for this machine's own."""

    path: PurePosixPath
    filesystem: Any = None

    @classmethod
    def of(cls, path: str, owner: str, argument: str, filesystem: Any = None) -> "Folder":
        """The folder of a path or of an address like ``s3://bucket/folder``."""
        if filesystem is not None:
            return cls(PurePosixPath(path), filesystem)
        if "://" not in path:
            return cls(PurePosixPath(Path(path).resolve().as_posix()))
        fs = need("pyarrow.fs", path)
        try:
            found, inside = fs.FileSystem.from_uri(path)
        except (need("pyarrow", path).ArrowException, OSError, ValueError) as error:
            got = Described(f"{path!r}: {' '.join(str(error).split())[:200]}")
            raise bad_argument(owner, argument, "a path, or an address that pyarrow.fs can open", got) from None
        return cls(PurePosixPath(inside), None if isinstance(found, fs.LocalFileSystem) else found)

    def files(self, *, recursive: bool = True) -> dict[str, int]:
        """The files in it and below, by their path from here, and when they were changed last, in nanoseconds."""
        fs = need("pyarrow.fs", "a folder")
        listed = self._info(fs.FileSelector(str(self.path), allow_not_found=True, recursive=recursive))
        try:
            return {
                PurePosixPath(info.path).relative_to(self.path).as_posix(): info.mtime_ns or 0
                for info in listed
                if info.type == fs.FileType.File
            }
        except UnicodeDecodeError as error:
            raise RunError(f"cannot list {self.path}: the file {error.object!r} has a name that is not UTF-8") from None

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return bool(self._info(str(self.path)).type == need("pyarrow.fs", "a folder").FileType.File)

    def _info(self, what: Any) -> Any:
        try:
            return self._files.get_file_info(what)
        except (OSError, ValueError) as error:
            raise RunError(f"cannot list {self.path}: {' '.join(str(error).split())[:200]}") from None

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """A file as one of this machine: itself, or a copy that is removed afterwards."""
        if self.filesystem is None:
            if not Path(self.path, name).is_file():
                raise InputError("it has disappeared since the run began")
            yield Path(self.path, name)
            return
        with tempfile.TemporaryDirectory() as own:
            copy = Path(own, Path(name).name)
            try:
                need("pyarrow.fs", name).copy_files(
                    str(self.path / name), str(copy), source_filesystem=self.filesystem,
                    destination_filesystem=need("pyarrow.fs", name).LocalFileSystem(),
                )  # fmt: skip
            except FileNotFoundError:
                raise InputError("it has disappeared since the run began") from None
            yield copy

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A file of this machine that gets its place here, whole, if all goes well."""
        if self.filesystem is None:
            yield Path(self.path, name)
            return
        with tempfile.TemporaryDirectory() as own:
            copy = Path(own, Path(name).name)
            yield copy
            self._put(copy, name)

    def _put(self, copy: Path, name: str) -> None:
        """Copy under a temporary name, then rename: a reader sees nothing or all."""
        fs, final = need("pyarrow.fs", name), self.path / name
        part = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            self.filesystem.create_dir(str(final.parent), recursive=True)
            fs.copy_files(
                str(copy), str(part), source_filesystem=fs.LocalFileSystem(), destination_filesystem=self.filesystem
            )
            with suppress(OSError):
                self.filesystem.delete_file(str(final))  # that not all file systems replace
            self.filesystem.move(str(part), str(final))
        except OSError as error:
            with suppress(OSError):
                self.filesystem.delete_file(str(part))
            raise RunError(f"cannot write {final}: {' '.join(str(error).split())[:200]}") from None

    def read_json(self, name: str) -> Any:
        """The content of a JSON file; None where there is no such file or it is something else."""
        with suppress(OSError, ValueError, RecursionError, InputError), self.reading(name) as file:
            return json.loads(file.read_bytes())
        return None

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file, whole or not at all."""
        with self.writing(name) as file:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, f"{json.dumps(content, indent=1)}\n".encode())

    def remove(self) -> None:
        """Delete the folder with all that is in it."""
        self._files.delete_dir(str(self.path))

    @property
    def _files(self) -> Any:
        return self.filesystem or need("pyarrow.fs", "a folder").LocalFileSystem()


def find_tables(source: str, owner: str, filesystem: Any = None) -> tuple[Folder, dict[str, int]]:
    """The tables that a pattern fits, below a folder or the file itself, and the folder that their names start from."""
    fixed, pattern = _split(source)
    folder = Folder.of(fixed, owner, "source", filesystem)
    if folder.is_file:
        folder, pattern = Folder(folder.path.parent, folder.filesystem), glob.escape(folder.path.name)
    found = {
        name: time
        for name, time in folder.files(recursive=not pattern or "/" in pattern or "**" in pattern).items()
        if PurePosixPath(name).suffix.lower() in READ
        and not any(part[:1] in HIDDEN for part in name.split("/"))
        and (not pattern or _fits(name.split("/"), pattern.split("/")))
    }
    if not found:
        allowed = f"a pattern, a folder or a file with tables ({', '.join(READ)})"
        raise bad_argument(owner, "source", allowed, Described(f"{source!r}, where there are none"))
    return folder, dict(sorted(found.items()))


def _split(source: str) -> tuple[str, str]:
    """The folder before the first wildcard, and the pattern below it; an empty one without wildcards."""
    if not is_pattern(source):
        return source, ""
    first = min(source.find(mark) for mark in WILD if mark in source)
    folder, slash, _ = source[:first].rpartition("/")
    return folder or slash or ".", source[len(folder) + len(slash) :]


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Whether the parts of a path fit those of a pattern, in which ``**`` stands for any number of folders."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or _fits(parts[1:], pattern)
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])
