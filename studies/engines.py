"""CPU seconds and memory of scoring many files: one process, two shards at a time, and Ray with two workers.

    python studies/engines.py FOLDER [--files 20] [--rows 1000000] [--times 1 5] [--out results.jsonl]

writes Parquet files of ROWS × 64 and a linear head on raw rows, fitted on 4,000 other such rows, into FOLDER, unless
they are there, and scores them in each of the three ways, one thread a process. With ``--times 5`` every file has five
names (hard links), so that 100 million rows take the disc of 20 million. CPU seconds are those of all processes,
sampled from /proc; memory is the largest proportional set size of a process. The scores of a file must be the same byte
for byte.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own.batch import need

COLUMNS, SHARE, APART, GROUP, SAMPLE, LABELLED = 64, 0.3, 0.4, 125_000, 4_000, 0.3
EVERY = 0.1  # seconds between two looks at /proc
TICK = os.sysconf("SC_CLK_TCK")
RUNS: dict[str, list[list[str]]] = {
    "one process": [[]],
    "two shards": [["--shard", "0/2"], ["--shard", "1/2"]],
    "Ray": [["--engine", "ray"]],
}


def rows(n: int, seed: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Two normal clouds, and which rows are of the first."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < SHARE
    return rng.standard_normal((n, COLUMNS), dtype=np.float32) + np.float32(APART) * positive[:, None], positive


def write(path: Path, n: int, seed: int) -> None:
    pa, pq = need("pyarrow", "the study"), need("pyarrow.parquet", "the study")
    x, _ = rows(n, seed)
    table = pa.table({f"x{i}": x[:, i] for i in range(COLUMNS)})
    pq.write_table(table, path, row_group_size=GROUP, compression="none", use_dictionary=False)


def prepare(folder: Path, files: int, n: int) -> None:
    """The rows and the model."""
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    for i in range(files):
        if not (path := folder / "rows" / f"{i:03}.parquet").exists():
            write(path, n, 1 + i)
    if not (folder / "model").exists():
        import pandas as pd

        import pucl

        x, positive = rows(SAMPLE, 0)
        s = (positive & (np.random.default_rng(0).random(SAMPLE) < LABELLED)).astype(int)
        frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(COLUMNS)])
        model = pucl.PUClassifier(prior=0.23, encoder="raw", labeller="cvir", head="linear", random_state=0)
        model.fit(frame, s).save(folder / "model")


def link(folder: Path, files: int, times: int) -> None:
    """A folder in which every file has so many names."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data").mkdir()
    for i in range(files * times):
        (folder / "data" / f"{i:04}.parquet").hardlink_to(folder / "rows" / f"{i % files:03}.parquet")


@dataclass
class Used:
    """By process and when it began: CPU seconds, what it was called last, and the largest memory in MB."""

    seconds: dict[tuple[int, str], float] = field(default_factory=dict)
    names: dict[tuple[int, str], str] = field(default_factory=dict)
    memory: dict[tuple[int, str], float] = field(default_factory=dict)

    def look(self, roots: set[int]) -> None:
        """At all processes below some."""
        stats: dict[int, list[str]] = {}
        for place in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                stats[int(place.parent.name)] = place.read_text(encoding="utf-8").rpartition(")")[2].split()
        for pid, words in stats.items():
            above = pid
            while above in stats and above not in roots:
                above = int(stats[above][1])
            if above in roots:
                self._add(pid, words)

    def _add(self, pid: int, words: list[str]) -> None:
        key = pid, words[19]
        self.seconds[key] = (int(words[11]) + int(words[12])) / TICK
        with suppress(OSError, IndexError):
            called = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            self.names[key] = called or self.names.get(key, "")
            memory = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").partition("\nPss:")[2].split()[0]
            self.memory[key] = max(self.memory.get(key, 0.0), int(memory) / 1e3)

    def parts(self) -> dict[str, float]:
        """CPU seconds of those who score, of the caller of Ray, and of Ray's own processes."""
        sums: dict[str, float] = defaultdict(float)
        for key, seconds in self.seconds.items():
            sums[_part(self.names.get(key, ""))] += seconds
        return {part: round(seconds, 1) for part, seconds in sums.items()}


def _part(name: str) -> str:
    if name.startswith("ray::Worker"):
        return "workers"
    return ("caller" if "--engine ray" in name else "workers") if " -m pucl " in name else "ray"


def measure(folder: Path, runs: Sequence[Sequence[str]]) -> tuple[Used, float]:
    """Score all files, and look on."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    asked = ["predict", str(folder / "model"), f"{folder}/data/*.parquet", "--out", str(folder / "out")]
    command = [sys.executable, "-m", "pucl", *asked]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    used, start = Used(), time.perf_counter()
    started = [subprocess.Popen([*command, *more], env=os.environ | {"OMP_NUM_THREADS": "1"}, **quiet) for more in runs]
    roots = {each.pid for each in started}
    while any(each.poll() is None for each in started):
        used.look(roots)
        time.sleep(EVERY)
    if any(each.returncode for each in started):
        sys.exit("a run failed")
    return used, time.perf_counter() - start


def digests(folder: Path, files: int) -> set[tuple[int, str]]:
    """What the files of scores hold, by the file of rows."""
    found = sorted((folder / "out").glob("*.parquet"))
    return {(int(path.stem) % files, hashlib.sha256(path.read_bytes()).hexdigest()) for path in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, nargs="+", default=[1])
    parser.add_argument("--ways", nargs="+", choices=RUNS, default=[*RUNS])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    prepare(given.folder, given.files, given.rows)
    seen: set[tuple[int, str]] = set()
    for times in given.times:
        link(given.folder, given.files, times)
        for way in given.ways:
            used, wall = measure(given.folder, RUNS[way])
            seen |= digests(given.folder, given.files)
            if len(seen) != given.files:
                sys.exit(f"{way}: other scores")
            line = {
                "rows": given.files * given.rows * times, "way": way,
                "cpu_seconds": round(sum(used.seconds.values()), 1), "parts": used.parts(),
                "memory_mb": round(max(used.memory.values())), "wall_seconds": round(wall, 1),
                "load": round(os.getloadavg()[0], 1), "python": platform.python_version(),
            }  # fmt: skip
            print(json.dumps(line), flush=True)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
