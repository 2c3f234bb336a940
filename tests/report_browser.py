"""Headless Chromium driven through its DevTools pipe, with nothing but the standard library."""

import base64
import itertools
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pucl.report import render
from report_examples import image, table, vector

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
EXAMPLES = {"image": image, "table": table, "vector": vector}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and writes answers to 4; a small process puts the pipes there.
LAUNCH = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 50) for fd in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 15.0  # seconds
# The texts of a page whose contrast with what is behind them is below 4.5.
FAINT_TEXTS = """
(() => {
  const numbers = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (c) => numbers(c).map(linear).reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0.05);
  const behind = (e) => {
    const c = e ? getComputedStyle(e).backgroundColor : 'rgb(255, 255, 255)';
    return c === 'rgba(0, 0, 0, 0)' ? behind(e.parentElement) : c;
  };
  const written = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const contrast = (e) => {
    const style = getComputedStyle(e);
    const [a, b] = [light(e instanceof SVGElement ? style.fill : style.color), light(behind(e))];
    return Math.max(a, b) / Math.min(a, b);
  };
  const texts = [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && written(e));
  return texts.filter((e) => e.tagName !== 'OPTION' && contrast(e) < 4.5).map((e) => e.outerHTML);
})()
"""


class Browser:
    """One page in one browser; events are kept in `events`."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
        launch = [sys.executable, "-c", LAUNCH, str(commands), str(answers), CHROMIUM, *flags]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(launch, pass_fds=(commands, answers), stdin=quiet, stdout=quiet, stderr=quiet)
        os.close(commands)
        os.close(answers)
        self._numbers, self._rest = itertools.count(1), b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        self._attach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)  # Chromium ends when its pipe does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive(time.monotonic() + PATIENCE)).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path) -> None:
        """Load a file and wait until its scripts have run and its pictures are there."""
        self.events.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.ready === 'true'")

    def reload(self) -> None:
        """Load the page again in its process; another one may read what is stored before this one has written it."""
        self.ask("document.documentElement.dataset.ready = 'before'")
        self.events.clear()
        self.send("Page.reload")
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.ready === 'true'")

    def ask(self, expression: str) -> Any:
        """The value of an expression on the page; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "exception on the page"))
        return answer["result"].get("value")

    def box(self, element: str) -> list[float]:
        """Left, top, width and height of an element in the window."""
        found: list[float] = self.ask(f"(b => [b.x, b.y, b.width, b.height])({element}.getBoundingClientRect())")
        return found

    def wait(self, expression: str) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + PATIENCE
        while not self.ask(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait for two frames to be painted."""
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def size(self, width: int, height: int = 900, *, mobile: bool = False) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.settle()

    def prefer(self, scheme: str) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def mouse(self, kind: str, x: float, y: float, **parameters: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def key(self, key: str, **parameters: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **parameters)

    def screenshot(self, path: Path, *, whole: bool = True) -> Path:
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        box = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": box["width"], "height": box["height"], "scale": 1}}

    def _attach(self) -> None:
        pages = [one for one in self.send("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("no answer from the browser")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise ConnectionError("the browser went away")
            self._rest += part
        first, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message


def complaints(browser: Browser) -> list[str]:
    """Everything the console or the page had to complain about."""
    found = []
    for event in browser.events:
        parts = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            found.append(str(parts["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and parts["type"] in {"error", "warning", "assert"}:
            found.append(str(parts["args"]))
        elif event.get("method") == "Log.entryAdded" and parts["entry"]["level"] in {"error", "warning"}:
            found.append(parts["entry"]["text"])
    return found


def requests(browser: Browser) -> list[str]:
    """Addresses the page asked for, without those that carry their content themselves."""
    sent = (
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    )
    return [address for address in sent if not address.startswith(("data:", "blob:"))]


def written(folder: Path, *parts: Any) -> Path:
    path = folder / "other.html"
    path.write_text(render(*parts), encoding="utf-8")
    return path


def press(browser: Browser, selector: str) -> None:
    browser.ask(f"document.querySelector({selector!r}).click()")
    browser.settle()


def centre(browser: Browser, selector: str) -> tuple[float, float]:
    """The middle of an element, scrolled into view."""
    one = f"document.querySelector({selector!r})"
    browser.ask(f"{one}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    browser.settle()
    left, top, width, height = browser.box(one)
    return left + width / 2, top + height / 2


def size_of(png: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return width, height


def figures(browser: Browser) -> dict[str, str]:
    names = ("value", "called", "positives", "precision", "recall", "f1")
    return {name: browser.ask(f"document.getElementById('threshold-{name}').textContent").strip() for name in names}
