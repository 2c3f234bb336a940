"""Small inputs of the runs, and a server for what `pucl data prepare` downloads."""

import csv
import hashlib
import http.server
import io
import os
import re
import signal
import socket
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from pucl.data.sources import Archive, File, Source
from torture.processes import Step

ROWS, LABELLED, POSITIVE = 60, 20, 30
GRID = """
tasks = ["digits"]
n_labelled = [100]
seeds = [0]

[recipe.quick]
epochs = 1
batch_size = 256
learning_rate = 4.0
view = "small_image"

[[block]]
methods = ["labelled_centroid", "naive"]
encoder = "raw"

[[block]]
objectives = ["pucl"]
encoder = "small_cnn"
recipes = ["quick"]
readouts = ["pupl"]
"""
FILES = {f"part{number}.bin": np.random.default_rng(number).bytes(300_000) for number in range(4)}


def write_inputs(folder: Path) -> None:
    """A table, the same in parts, pictures and a grid."""
    rng = np.random.default_rng(0)
    positive = np.arange(ROWS) < POSITIVE
    age, height = 40 + 10 * positive + rng.normal(size=ROWS), 1.7 + 0.1 * rng.normal(size=ROWS)
    rows = [[f"r{i:02d}", round(age[i], 3), round(height[i], 3), int(i < LABELLED)] for i in range(ROWS)]
    _write_table(folder / "people.csv", rows)
    for part in range(3):
        _write_table(folder / "parts" / f"{part}.csv", rows[part::3])
    _write_pictures(folder / "pictures", rng)
    (folder / "g.toml").write_text(GRID, encoding="utf-8")


def _write_table(path: Path, rows: list[list[Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "age", "height", "known"], *rows])


def _write_pictures(folder: Path, rng: np.random.Generator, n: int = 48) -> None:
    from PIL import Image

    for i in range(n):
        place = folder / ("positive" if i < n // 3 else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        low = 128 if i < n // 2 else 0
        Image.fromarray(rng.integers(low, low + 128, size=(8, 8)).astype(np.uint8)).save(place / f"{i:02d}.png")


def packed() -> bytes:
    """The files as an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in FILES.items():
            about = tarfile.TarInfo(f"packed/{name}")
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return buffer.getvalue()


def md5(content: bytes) -> str:
    """As sources name them."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def offer(port: int) -> Step:
    """What makes a process know two data sets of the server: one of files, and one in an archive."""
    url = f"http://127.0.0.1:{port}"
    files = tuple(File(name, md5(content), f"{url}/{name}") for name, content in FILES.items())
    archive = Archive(f"{url}/packed.tar", md5(packed()), "packed")
    known = (
        Source("loose", ("loose1",), url, ("loose",), files),
        Source("packed", ("packed1",), url, ("packed",), tuple(File(file.name, file.md5) for file in files),
               archive=archive),
    )  # fmt: skip

    def patch() -> None:
        from pucl.data import sources

        sources.SOURCES = known

    return patch


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = packed() if self.path == "/packed.tar" else FILES.get(self.path[1:])
        if body is None:
            self.send_error(404)
            return
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wanted[1]) if wanted else 0
        if wanted and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        try:
            for at in range(start, len(body), 1 << 14):
                self.wfile.write(body[at : at + (1 << 14)])
        except OSError:  # the reader was killed
            return

    def log_message(self, *_: Any) -> None:
        pass


def serve() -> tuple[int, int]:
    """Start a server; returns the number of its process and its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    parent, port = os.getpid(), listening.getsockname()[1]
    number = os.fork()
    if number:
        listening.close()
        return number, port
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.timeout = listening, 1.0
    while os.getppid() == parent:
        server.handle_request()
    os._exit(0)
