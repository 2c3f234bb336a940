"""Packages and weights that may be missing: what is asked of the hub, and one line for everything that fails."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from frozen_examples import images, labels, stand_in_torchvision
from pucl import PUClassifier
from pucl.errors import InputError
from pucl.weights import FILES, folder_of, need

COMMIT = "c" * 40


def hub_of(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., str]) -> None:
    """A stand-in for huggingface_hub whose `snapshot_download` is `answer`."""
    module = ModuleType("huggingface_hub")
    module.__dict__["snapshot_download"] = answer
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


@pytest.mark.parametrize("download", [False, True])
def test_the_newest_version_is_asked_for_in_the_hubs_own_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, download: bool
) -> None:
    calls: list[Any] = []

    def answer(*args: Any, **options: Any) -> str:
        calls.append((args, options))
        return str(tmp_path)

    hub_of(monkeypatch, answer)
    assert folder_of("org/tiny", "it", owner="x", download=download) == tmp_path
    # no revision and no cache_dir: the branch main, where HF_HOME says; no patterns for code and pickles
    assert calls == [(("org/tiny",), {"allow_patterns": list(FILES), "local_files_only": not download})]
    assert folder_of(str(tmp_path), "it", owner="x", download=download) == tmp_path
    assert len(calls) == 1, "nothing is asked for a folder"


@pytest.mark.parametrize(
    ("download", "reason", "message"),
    [
        (False, FileNotFoundError("pass local_files_only=False"),
         "x: the weights of it are not on this machine; allow the download with download=True"),
        (False, PermissionError("the cache\ncannot be read"),
         "x: the weights of it are not on this machine (the cache cannot be read); allow the download with "
         "download=True"),
        (True, FileNotFoundError("[Errno 111] Connection refused\n\nand more"),
         "x: the weights of it could not be downloaded: [Errno 111] Connection refused and more"),
        (True, RuntimeError(), "x: the weights of it could not be downloaded: RuntimeError"),
    ],
)  # fmt: skip
def test_what_is_not_here_is_one_line(
    monkeypatch: pytest.MonkeyPatch, download: bool, reason: Exception, message: str
) -> None:
    def answer(*_: Any, **__: Any) -> str:
        raise reason

    hub_of(monkeypatch, answer)
    with pytest.raises(InputError) as caught:
        folder_of("org/tiny", "it", owner="x", download=download)
    assert str(caught.value) == message


@pytest.mark.parametrize("target", ["./models", "/models/bert", "~/models", "a/b/c", "..x", "C:\\models"])
def test_what_is_no_name_of_the_hub_was_meant_as_a_folder(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    hub_of(monkeypatch, lambda *_, **__: pytest.fail("the hub was asked"))
    with pytest.raises(InputError, match="there is no folder .*, and it is no ORG/NAME of the hub"):
        folder_of(target, "it", owner="x", download=True)


def test_a_download_of_torchvision_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(**_: Any) -> None:
        raise OSError("<urlopen error [Errno -2] Name or service not known>")

    stand_in_torchvision(monkeypatch, tmp_path, here=False, fetch=fails)
    message = (
        r"^PUClassifier: the weights of encoder 'torchvision:tiny' could not be downloaded: <urlopen error .*known>$"
    )
    with pytest.raises(InputError, match=message):
        PUClassifier(encoder="torchvision:tiny", download=True).fit(images(), labels()[1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("raise RuntimeError('operator vision::nms\\ndoes not exist')",
         "it needs half_here (it is here but cannot be imported: operator vision::nms does not exist): pip install me"),
        ("import never_there.part",
         "it needs half_here (it is here but cannot be imported: No module named 'never_there'): "
         "pip install never_there"),
        ("raise ImportError('no symbol')",
         "it needs half_here (it is here but cannot be imported: no symbol): pip install me"),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "half_here.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        need("half_here", "it", "pip install me")
    assert str(caught.value) == message
    with pytest.raises(InputError, match="^it needs never_there: pip install never_there$"):
        need("never_there", "it")


@contextmanager
def hub_on_this_machine(models: Path) -> Iterator[tuple[str, list[str]]]:
    """A hub whose models are folders below `models`: its address, and the paths that were asked for."""
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            asked.append("/".join(parts))
            body = self._file(parts) if "resolve" in parts else self._about(parts)
            self.send_response(404 if body is None else 200)
            self.send_header("ETag", f'"{hashlib.sha256(body or b"").hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if self.command == "GET" and body:
                self.wfile.write(body)

        def _about(self, parts: list[str]) -> bytes | None:
            model = models.joinpath(*parts[2:4])
            if parts[:2] != ["api", "models"] or not model.is_dir():
                return None
            files = [path for path in model.rglob("*") if path.is_file()]
            names = [(path.relative_to(model).as_posix(), path.stat().st_size) for path in files]
            if "tree" in parts:
                tree = [{"type": "file", "path": name, "size": size, "oid": "0" * 40} for name, size in names]
                return json.dumps(tree).encode()
            siblings = [{"rfilename": name} for name, _ in names]
            return json.dumps({"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings}).encode()

        def _file(self, parts: list[str]) -> bytes | None:
            at = parts.index("resolve")
            path = models.joinpath(*parts[:at], *parts[at + 2 :])
            return path.read_bytes() if path.is_file() else None

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def ask(address: str, home: Path, *, download: bool) -> tuple[str, str]:
    """What another process finds with the real client: a folder, or the error."""
    code = (
        "import sys; from pucl.errors import InputError; from pucl.weights import folder_of\n"
        f"try: print(folder_of('org/tiny', 'it', owner='', download={download}))\n"
        "except InputError as error: sys.exit(str(error))"
    )
    # 127.0.0.1 is reached without a proxy
    places = {
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | places, capture_output=True, text=True, check=False
    )
    return ran.stdout.strip(), ran.stderr.strip()


@pytest.mark.slow
def test_the_real_client_fetches_settings_and_weights_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    model, home = tmp_path / "models" / "org" / "tiny", tmp_path / "home"
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "vocab.txt", "code.py", "pytorch_model.bin"):
        (model / name).write_text(name)
    with hub_on_this_machine(tmp_path / "models") as (address, asked):
        _, error = ask(address, home, download=False)
        assert error == "the weights of it are not on this machine; allow the download with download=True"
        assert not asked and not home.exists()
        found, _ = ask(address, home, download=True)
        assert "api/models/org/tiny/revision/main" in asked
        files = {path.rsplit("/", 1)[-1] for path in asked if "/resolve/" in path}
        assert files == {"config.json", "model.safetensors", "vocab.txt"}
        assert home in Path(found).parents and {path.name for path in Path(found).iterdir()} == files
        asked.clear()
        assert ask(address, home, download=False) == (found, "") and not asked
    _, error = ask(address, tmp_path / "other", download=True)  # nobody answers any more
    assert error.startswith("the weights of it could not be downloaded: ") and "\n" not in error
