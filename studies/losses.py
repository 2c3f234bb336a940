"""Time and memory of the objectives, forward and backward, compared with other versions and the floor.

    python studies/losses.py --pairs 1024                  # on a CPU
    python studies/losses.py --pairs 16384 131072 --device cuda --dtype bfloat16

The floor is what cannot be avoided: the three matrix products (similarities forward, similarities and weighted rows
backward) with nothing between them, in the same precision. Everything is measured in one run, each line with its own
warm-up; times are medians, memory is what is taken at the peak above the inputs. The naive version and
pytorch-metric-learning hold n × n matrices and are left out where those would not fit.
"""

import argparse
import ctypes
import gc
import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.losses import make_objective
from pucl.registry import entries

OPTIONS: dict[str, dict[str, Any]] = {"dcl": {"prior": 0.3}, "punce": {"prior": 0.3}, "mcl": {"mixing": 0.4}}
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def naive(z1: Tensor, z2: Tensor, s: Tensor) -> Tensor:
    """The puCL objective as it is usually written: matrices of similarities, of masks and of log-probabilities."""
    z = F.normalize(torch.cat([z1, z2]).float(), dim=1)
    labelled = torch.cat([s, s])
    n = len(z)
    own = torch.arange(n, device=z.device)
    attract = (own[:, None] + n // 2) % n == own
    attract = torch.where(labelled[:, None], labelled[:, None] & labelled, attract) & (own[:, None] != own)
    similarity = z @ z.T / 0.5
    similarity = similarity.masked_fill(own[:, None] == own, float("-inf"))
    log_probability = similarity - similarity.logsumexp(dim=1, keepdim=True)
    return -(log_probability.masked_fill(~attract, 0).sum(1) / attract.sum(1)).mean()


def metric_learning() -> dict[str, Loss]:
    """The losses of pytorch-metric-learning, if it is installed."""
    try:
        from pytorch_metric_learning.losses import NTXentLoss, SupConLoss
    except ImportError:
        return {}
    ntxent, supcon = NTXentLoss(temperature=0.5), SupConLoss(temperature=0.5)

    def self_supervised(z1: Tensor, z2: Tensor, s: Tensor) -> Tensor:
        number = torch.arange(len(s), device=s.device)
        out: Tensor = ntxent(torch.cat([z1, z2]), torch.cat([number, number]))
        return out

    def supervised(z1: Tensor, z2: Tensor, s: Tensor) -> Tensor:
        out: Tensor = supcon(torch.cat([z1, z2]), torch.cat([s, s]).long())
        return out

    return {"pytorch-metric-learning NTXent": self_supervised, "pytorch-metric-learning SupCon": supervised}


def floor(z: Tensor) -> Callable[[], None]:
    """The three products on rows (m, d), in blocks of rows so that memory is no limit."""
    size = min(len(z), max(256, 2**30 // len(z)))
    blocks = torch.split(z, size)
    similarity = torch.empty(size, len(z), dtype=z.dtype, device=z.device)
    out = torch.empty(size, z.shape[1], dtype=z.dtype, device=z.device)

    def run() -> None:
        for block in blocks:
            torch.mm(block, z.T, out=similarity[: len(block)])
            torch.mm(block, z.T, out=similarity[: len(block)])
            torch.mm(similarity[: len(block)], z, out=out[: len(block)])

    return run


def peak_on_gpu(run: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def peak_on_cpu(run: Callable[[], None]) -> float | None:
    """Growth of the resident memory at its peak, on Linux; pages kept by the allocator are given back first."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None

    def kilobytes(field: str) -> int:
        return int(re.findall(rf"{field}:\s+(\d+)", status.read_text(encoding="ascii"))[0])

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    reset.write_text("5", encoding="ascii")  # sets the high-water mark to what is resident now
    before = kilobytes("VmRSS")
    run()
    return (kilobytes("VmHWM") - before) / 1024


def measure(run: Callable[[], None], device: torch.device, repeats: int) -> tuple[float, float | None]:
    """Median milliseconds, and megabytes at the peak above what was there before."""
    cuda = device.type == "cuda"
    for _ in range(2):
        run()
    memory = peak_on_gpu(run) if cuda else peak_on_cpu(run)
    times = []
    for _ in range(repeats):
        if cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times), memory


def candidates(*, matrices: bool, compiled: bool) -> dict[str, Loss]:
    """Every line of the table but the floor; those that hold n × n matrices only on request."""
    losses: dict[str, Loss] = {
        f"pucl {name}": make_objective(name, **OPTIONS.get(name, {})) for name in entries("losses")
    }
    if compiled:
        losses["pucl pucl, compiled"] = torch.compile(make_objective("pucl"))
    losses["pucl sscl, tiled"] = make_objective("sscl", implementation="tiled")
    if matrices:
        losses["pucl sscl, plain"] = make_objective("sscl", implementation="plain")
        losses["naive puCL, n × n"] = naive
        losses |= metric_learning()
    return losses


def compare(pairs: int, dim: int, dtype: torch.dtype, device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """One table: every candidate at one size, with its ratio to the floor."""
    g = torch.Generator(device=device).manual_seed(0)
    z1, z2 = (torch.randn(pairs, dim, generator=g, device=device).to(dtype).requires_grad_() for _ in range(2))
    s = torch.rand(pairs, generator=g, device=device) < 0.1
    rows = F.normalize(torch.cat([z1, z2]).detach(), dim=1)
    base, _ = measure(floor(rows), device, repeats)
    lines: list[dict[str, Any]] = [{"what": "floor: three matrix products", "ms": base, "ratio": 1.0, "peak_mb": None}]
    for name, loss in candidates(matrices=pairs <= 16384, compiled=device.type == "cuda").items():

        def step(loss: Loss = loss) -> None:
            z1.grad = z2.grad = None
            loss(z1, z2, s).backward()  # type: ignore[no-untyped-call]

        try:
            ms, memory = measure(step, device, repeats)
        except RuntimeError as error:  # a CPU has no error class of its own for this
            if "memory" not in str(error):
                raise
            lines.append({"what": f"{name}: out of memory", "ms": None, "ratio": None, "peak_mb": None})
            continue
        z1.grad = z2.grad = None
        lines.append({"what": name, "ms": ms, "ratio": ms / base, "peak_mb": memory})
    return lines


def show(lines: list[dict[str, Any]]) -> None:
    print("| | ms | × floor | peak MB |\n|---|---|---|---|")
    for line in lines:
        cells = [("ms", ".2f"), ("ratio", ".2f"), ("peak_mb", ",.0f")]
        values = ("–" if line[key] is None else format(line[key], spec) for key, spec in cells)
        print(f"| {line['what']} | {' | '.join(values)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1024])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", help="append one JSON line per table to this file")
    given = parser.parse_args()
    device = torch.device(given.device)
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    for pairs in given.pairs:
        repeats = given.repeats if pairs <= 32768 else min(3, given.repeats)
        lines = compare(pairs, given.dim, getattr(torch, given.dtype), device, repeats)
        print(f"\n{pairs:,} pairs, d = {given.dim}, {given.dtype}, {hardware}, torch {torch.__version__}\n")
        show(lines)
        if given.json:
            head = {"pairs": pairs, "dim": given.dim, "dtype": given.dtype, "hardware": hardware}
            with Path(given.json).open("a", encoding="utf-8") as file:
                file.write(json.dumps(head | {"torch": str(torch.__version__), "lines": lines}) + "\n")


if __name__ == "__main__":
    main()
