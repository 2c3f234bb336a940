"""Fetch official data sets: resumed after a break, checked, and under their final name only once they are whole."""

import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pucl.data.sources import Archive, File, Source, data_root, md5_of
from pucl.errors import InputError
from pucl.files import InUseError, alone_at, made

Report = Callable[[str, float], None]  # (what is being fetched, the share done)
PIECE = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
COMPLETE = 416  # what a server answers to a range that starts at the end of the file


def prepare(source: Source, *, report: Report | None = None) -> bool:
    """Make sure that a data set is there and whole; True if something had to be fetched, False if all was there.

    Files whose checksum is not the official one are fetched again; what cannot be fetched is one error.
    """
    damage = source.damage()
    if not damage and not source.missing():
        _remove_leftovers(source)
        return False
    if not source.downloadable:
        raise source.absent(source.folder / source.missing()[0])
    try:
        if source.archive is not None:
            _fetch_archive(source, source.archive, report)
        else:
            _fetch_files(source, report)
    except InputError as error:
        raise InputError("; ".join((*damage[:1], str(error)))) from error
    if damage := source.damage():
        raise InputError(damage[0])
    return True


def fetch(url: str, target: Path, *, md5: str, report: Report | None = None) -> None:
    """Download `url` to `target` through ``target.part``, which a later call continues and a wrong checksum removes."""
    part = target.with_name(f"{target.name}.part")
    try:
        with made(part.parent), alone_at(part):
            _continue(url, part, report)
            actual = md5_of(part)
            if actual == md5:
                part.replace(target)
                return
            part.unlink()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InputError(f"{target.name}: cannot fetch {url} into {target.parent}: {reason}") from error
    raise InputError(f"{target.name}: {url} gave another file; expected MD5 {md5}, found {actual}; nothing was kept")


def _continue(url: str, part: Path, report: Report | None) -> None:
    """Append to `part` what it lacks; start anew where the server cannot resume."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        reply = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310  (addresses are ours, contents checked)
    except urllib.error.HTTPError as error:
        if error.code == COMPLETE and have:
            return
        raise
    with reply:
        have = have if reply.status == http.HTTPStatus.PARTIAL_CONTENT else 0
        total = have + int(reply.headers.get("Content-Length") or 0)
        with part.open("ab" if have else "wb") as out:
            while piece := reply.read(PIECE):
                out.write(piece)
                have += len(piece)
                if report is not None:
                    report(part.stem, min(have / max(total, 1), 1.0))
    if have < total:
        raise ConnectionError(f"the connection broke after {have:,} of {total:,} bytes; run again to continue")


def _fetch_files(source: Source, report: Report | None) -> None:
    for file in source.files:
        target = source.folder / file.name
        if file.url and (file.name in source.missing() or (target.exists() and md5_of(target) != file.md5)):
            fetch(file.url, target, md5=file.md5, report=report)


def _fetch_archive(source: Source, archive: Archive, report: Report | None) -> None:
    if not source.files and source.folder.exists():
        raise InputError(
            f"{source.folder}: {', '.join(source.missing())} is missing; move the folder away and run again"
        )
    packed, unpacked = _places(archive)
    if not (packed.exists() and md5_of(packed) == archive.md5):
        fetch(archive.url, packed, md5=archive.md5, report=report)
    try:
        with alone_at(packed):
            _unpack(source, archive, packed, unpacked)
    except InUseError as error:
        raise InputError(f"{packed}: {error.strerror}") from error
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{packed}: cannot unpack it: {' '.join(str(error).split())}") from error


def _places(archive: Archive) -> tuple[Path, Path]:
    """Where an archive lies, and where it is unpacked."""
    packed = data_root() / archive.url.rsplit("/", 1)[-1]
    return packed, packed.with_name(f"{archive.folder}.part")


def _unpack(source: Source, archive: Archive, packed: Path, unpacked: Path) -> None:
    """Put what is in an archive in its place and remove the archive; a folder that is left says that it was killed."""
    try:
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(packed) as tar:
            tar.extractall(unpacked, filter="data")
        _move(unpacked / archive.folder, data_root() / archive.folder, source.files)
        packed.unlink(missing_ok=True)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _remove_leftovers(source: Source) -> None:
    """Remove the archive of a data set that is whole, where a process was killed before it did so."""
    if source.archive is None:
        return
    packed, unpacked = _places(source.archive)
    if unpacked.is_dir():
        with suppress(OSError), alone_at(packed):
            packed.unlink(missing_ok=True)
            shutil.rmtree(unpacked, ignore_errors=True)


def _move(unpacked: Path, folder: Path, files: tuple[File, ...]) -> None:
    """Put an unpacked folder in its place: whole where there is none yet, else the official files one by one."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unpacked.replace(folder)
        return
    for file in files:
        (unpacked / file.name).replace(folder / file.name)
