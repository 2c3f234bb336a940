"""A worker: units of work come in on stdin as JSON lines, outcomes go out on stdout; it ends when stdin does.

The first line says how: ``{"encoders", "device", "commit", "anew"}``. Every other line is a unit, a list of cells; it
is answered by as many outcomes and an empty line. A parent that was killed closes stdin, and the worker ends at once,
whatever it is doing.
"""

import json
import os
import queue
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any


def main() -> None:
    """Work until there is no more."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no outcome
    how = json.loads(sys.stdin.readline())
    todo: queue.Queue[list[dict[str, Any]]] = queue.Queue()
    threading.Thread(target=_listen, args=(todo,), daemon=True).start()
    from pucl.bench.run.work import Bench

    bench = Bench(Path(how["encoders"]), how["device"], how["commit"], anew=how["anew"])
    while True:
        for outcome in bench.run(todo.get()):
            print(json.dumps(asdict(outcome), ensure_ascii=False), file=out, flush=True)
        print(file=out, flush=True)


def _listen(todo: "queue.Queue[list[dict[str, Any]]]") -> None:
    for line in sys.stdin:
        todo.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
