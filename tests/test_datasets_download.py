"""The downloader, against a server on this machine."""

import http.server
import re
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataset_examples import digest, message, noise
from pucl.data.download import fetch, prepare
from pucl.data.sources import Archive, File, Source

CONTENT = noise(700_000).tobytes()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; /short breaks off, /whole ignores ranges, /NAME serves a file of the server."""

    def do_GET(self) -> None:
        server: Any = self.server
        body = server.files.get(self.path, CONTENT)
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", "")) if self.path != "/whole" else None
        start = int(wanted[1]) if wanted else 0
        server.seen.append((self.path, start))
        if wanted and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start : start + 300_000] if self.path == "/short" else body[start:])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.seen, made.files = [], {}
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_fetch_reports_and_leaves_one_file(server: Any, tmp_path: Path) -> None:
    shares: list[float] = []
    fetch(f"{server.url}/a", tmp_path / "new" / "a", md5=digest(CONTENT), report=lambda _, share: shares.append(share))
    assert (tmp_path / "new" / "a").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_fetch_continues_after_a_break(server: Any, tmp_path: Path) -> None:
    target, part = tmp_path / "a", tmp_path / "a.part"
    for size in (300_000, 600_000):
        text = message(lambda: fetch(f"{server.url}/short", target, md5=digest(CONTENT)))
        assert f"the connection broke after {size:,} of 700,000 bytes; run again to continue" in text
        assert not target.exists() and part.stat().st_size == size
    fetch(f"{server.url}/short", target, md5=digest(CONTENT))
    assert target.read_bytes() == CONTENT and not part.exists()
    assert [start for _, start in server.seen] == [0, 300_000, 600_000]


@pytest.mark.parametrize(("where", "have"), [("/whole", CONTENT[:1000]), ("/a", CONTENT)])
def test_fetch_without_ranges_or_with_nothing_left(server: Any, tmp_path: Path, where: str, have: bytes) -> None:
    (tmp_path / "a.part").write_bytes(have)
    fetch(server.url + where, tmp_path / "a", md5=digest(CONTENT))
    assert (tmp_path / "a").read_bytes() == CONTENT and not (tmp_path / "a.part").exists()


def test_a_wrong_checksum_keeps_nothing(server: Any, tmp_path: Path) -> None:
    text = message(lambda: fetch(f"{server.url}/a", tmp_path / "a", md5="0" * 32))
    assert f"expected MD5 {'0' * 32}, found {digest(CONTENT)}" in text
    assert not any(tmp_path.iterdir())


def test_prepare_single_files(server: Any, root: Path) -> None:
    files = tuple(File(name, digest(CONTENT), f"{server.url}/{name}") for name in ("a", "b"))
    source = Source("mine", ("task",), "page", ("mine",), files)
    assert prepare(source) and not prepare(source)
    assert len(server.seen) == 2
    (root / "mine" / "b").write_bytes(b"damaged")
    assert prepare(source) and (root / "mine" / "b").read_bytes() == CONTENT
    assert [path for path, _ in server.seen] == ["/a", "/b", "/b"]


def packed(tmp_path: Path, folder: str) -> bytes:
    made = tmp_path / "made"
    for part in ("train", "val"):
        (made / folder / part).mkdir(parents=True)
    (made / folder / "file").write_bytes(CONTENT)
    with tarfile.open(made / "a.tgz", "w:gz") as tar:
        tar.add(made / folder, folder)
    return (made / "a.tgz").read_bytes()


@pytest.mark.parametrize("images", [True, False])
def test_prepare_an_archive(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: bool) -> None:
    root = tmp_path / "root"
    monkeypatch.setenv("PUCL_DATA", str(root))
    server.files["/a.tgz"] = packed(tmp_path, "mine-160")
    archive = Archive(f"{server.url}/a.tgz", digest(server.files["/a.tgz"]), "mine-160")
    files = () if images else (File("file", digest(CONTENT)),)
    source = Source("mine", ("task",), "page", ("mine-64", "mine-160"), files, ("train", "val") * images, archive)
    assert prepare(source) and not prepare(source) and len(server.seen) == 1
    assert [path.name for path in root.iterdir()] == ["mine-160"]
    assert (root / "mine-160" / "file").read_bytes() == CONTENT
    if images:
        (root / "mine-160" / "val").rmdir()
        assert "val is missing; move the folder away" in message(lambda: prepare(source))
    else:
        (root / "mine-160" / "file").write_bytes(b"damaged")
        assert prepare(source) and (root / "mine-160" / "file").read_bytes() == CONTENT


def test_an_archive_that_is_none(server: Any, root: Path) -> None:
    archive = Archive(f"{server.url}/a.tgz", digest(CONTENT), "mine")
    source = Source("mine", ("t",), "page", ("mine",), (), ("train",), archive)
    assert "cannot unpack it" in message(lambda: prepare(source))
    assert [path.name for path in root.iterdir()] == ["a.tgz"]  # the official file, which need not be fetched again
