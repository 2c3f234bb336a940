"""Files that are written whole or not at all."""

import contextlib
import errno
import os
from pathlib import Path

# What file systems answer that cannot fsync a folder.
CANNOT_SYNC = (errno.EINVAL, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EBADF)


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that at any moment there is the old file or the new one, on the disk and whole."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


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
