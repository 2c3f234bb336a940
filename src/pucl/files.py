"""Files that are written whole or not at all, and folders in which one process works at a time."""

import errno
import math
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

if sys.platform != "win32":
    import fcntl

# What file systems answer that cannot fsync a folder.
CANNOT_SYNC = (errno.EINVAL, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EBADF)
# What they answer when the temporary file of a path belongs to somebody else.
NOT_OURS = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR)
SLOTS = 100  # processes that write to one path at the same time
LONGEST = 200  # bytes of a file's name that are part of the name of its temporary file
PAUSE = 0.05  # seconds between two looks at a folder that is in use
_TEMPORARY = re.compile(r"\..+\.tmp", re.DOTALL)


class InUseError(OSError):
    """Another process works on a file or in a folder."""


def is_temporary(path: Path) -> bool:
    """Whether a file is one that a write has not finished, or that a killed process has left of one."""
    return _TEMPORARY.fullmatch(path.name) is not None


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that at any moment there is the old file or the new one, on the disk and whole."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes its place if all goes well and is removed if not.

    Processes that write to one path at the same time have a file each, and the last to finish counts. A process that is
    killed leaves its file, which the next one that writes to this path uses or removes.
    """
    temporary, handle = _own_file(path)
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        if handle is None or _is_at(temporary, handle):
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    _remove_stale(path)
    _sync_folder(path.parent)


@contextmanager
def alone_in(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Work in a folder, made when missing, that no other process works in; folders made here are removed if empty.

    A process that ends, however it ends, leaves no lock. Where the file system knows no locks, all are let in.

    Args:
        folder: to be locked.
        patience: seconds to wait for a process that works in it; then it is an `InUseError`.
    """
    handle, until = None, time.monotonic() + patience
    try:
        with made(folder):
            handle = _locked_folder(folder)
            while handle is False:
                if time.monotonic() >= until:
                    problem = "another process is working there; wait for it or use another"
                    raise InUseError(errno.EBUSY, problem, folder)
                time.sleep(PAUSE)
                folder.mkdir(parents=True, exist_ok=True)
                handle = _locked_folder(folder)
            yield
    finally:
        if handle is not None and handle is not False:
            os.close(handle)


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """A folder that is there, made when missing; folders made here are removed if they stay empty."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with suppress(OSError):  # there are files in it, or it is gone
            for place in missing:
                place.rmdir()


@contextmanager
def alone_at(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Work on a file, made when missing, that no other process works on; it is removed if it stays empty.

    A process that ends, however it ends, leaves no lock. Where the file system knows no locks, all are let in.

    Args:
        path: to be locked.
        patience: seconds to wait for a process that works on it; then it is an `InUseError`.
    """
    handle, until = _locked_file(path), time.monotonic() + patience
    while handle is False:
        if time.monotonic() >= until:
            raise InUseError(errno.EBUSY, "another process is working on it; wait for it", path)
        time.sleep(PAUSE)
        handle = _locked_file(path)
    try:
        yield
    finally:
        try:
            if _is_at(path, handle) and not os.fstat(handle).st_size:
                path.unlink()
        finally:
            os.close(handle)


@contextmanager
def lock_file(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock that is a file of its own, removed afterwards; one that another process holds is an `InUseError`.

    The lock of a process that was killed is free at once. Windows keeps the file.
    """
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        lock = FileLock(path, timeout=-1 if math.isinf(patience) else patience)
        try:
            lock.acquire()
        except Timeout:
            raise InUseError(errno.EBUSY, "another process holds it; wait for it", path) from None
        try:
            yield
        finally:
            lock.release()
    else:
        with alone_at(path, patience=patience):
            yield


def _locked_file(path: Path) -> int | Literal[False]:
    """The handle of a file locked for this process, made when missing; False if another one has it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with _closed_on_error(handle):
            locked = _locked(handle)
            if locked is None or (locked and _is_at(path, handle)):
                return handle
        os.close(handle)
        if locked is False:
            return False  # else it was renamed or removed before it was locked


def _locked_folder(folder: Path) -> int | Literal[False] | None:
    """The handle of a folder locked for this process; False if another one has it, None where there are no locks."""
    if sys.platform == "win32":  # which cannot open folders
        return None
    handle = os.open(folder, os.O_RDONLY)
    with _closed_on_error(handle):
        locked = _locked(handle)
        if locked and _is_at(folder, handle):
            return handle
    os.close(handle)
    return None if locked is None else False


def _own_file(path: Path) -> tuple[Path, int | None]:
    """A temporary file for a path that no other process has, and the handle by which it is locked, if it can be."""
    if sys.platform == "win32":
        return _slot(path, secrets.token_hex(4)), None
    error: OSError = InUseError(errno.EBUSY, "too many processes are writing to it", path)
    for number in range(SLOTS):
        temporary = _slot(path, str(number))
        try:
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as refused:
            if refused.errno not in NOT_OURS:
                raise
            error = refused
            continue
        with _closed_on_error(handle):
            locked = _locked(handle)
            if locked and _is_at(temporary, handle):  # else it was renamed or removed before it was locked
                os.ftruncate(handle, 0)
                return temporary, handle
        os.close(handle)
        if locked is None:
            temporary.unlink(missing_ok=True)
            return _slot(path, secrets.token_hex(4)), None
    raise error


def _remove_stale(path: Path) -> None:
    """Remove what killed processes have left that wrote to a path at the same time."""
    if sys.platform == "win32":
        return
    for number in range(SLOTS):
        temporary = _slot(path, str(number))
        if number and not temporary.exists():
            return
        with suppress(OSError):
            handle = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _locked(handle) and _is_at(temporary, handle):
                    temporary.unlink()
            finally:
                os.close(handle)


def _slot(path: Path, number: str) -> Path:
    """The name of a temporary file of a path: hidden, and not too long."""
    name = os.fsdecode(os.fsencode(path.name)[:LONGEST])
    return path.with_name(f".{name}.tmp" if number == "0" else f".{name}.{number}.tmp")


def _locked(handle: int) -> bool | None:
    """Lock what is open for this process; False if another one has done so, None where locks are not known."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def _closed_on_error(handle: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        os.close(handle)
        raise


def _is_at(path: Path, handle: int) -> bool:
    """Whether a path is that of an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            raise
