"""Memory and time of a step with cached gradients: a large batch in chunks, the same whole, a batch of one chunk.

    python studies/chunks.py                                                    # small_cnn, 3 × 16 × 16, on a CPU
    python studies/chunks.py --device cuda --encoder resnet18 --shape 3 32 32 --out results.jsonl

Every variant runs in a process of its own, one after another. Memory is the peak above what the process held before its
first step: resident memory on a CPU, the allocator's on a GPU. Time is the median of all steps but the first, on a CPU
processor time, so that other work on the machine does not count.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from pucl.training import TrainConfig
from pucl.training.pretraining import prepare

STEPS = 3
# Blocks from this size on (glibc) go back to the system when they are freed: resident memory is what tensors take.
GIVEN_BACK = 1 << 20


def resident() -> int:
    """Bytes of this process in memory, on Linux."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def measure(batch: int, chunk: int | None, given: argparse.Namespace) -> dict[str, Any]:
    """One variant, in this process."""
    torch.set_num_threads(given.threads)
    cuda = given.device.startswith("cuda")
    generator = Generator().manual_seed(0)
    x = torch.randint(256, (batch, *given.shape), generator=generator, dtype=torch.uint8)
    labelled = torch.arange(len(x)) < len(x) // 50
    config = TrainConfig(epochs=STEPS, batch_size=batch, chunk_size=chunk, capture=False if cuda else None)
    work = prepare(x, labelled, encoder=given.encoder, view="simclr", config=config, device=given.device)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = resident()
    times, clock = [], time.perf_counter if cuda else time.process_time
    steps = work.run.steps()
    for _ in range(STEPS):
        began = clock()
        next(steps)
        if cuda:
            torch.cuda.synchronize()
        times.append(clock() - began)
    steps.close()
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "batch": batch, "chunk": chunk, "seconds": round(statistics.median(times[1:]), 3),
        "peak_mb": round((peak - before) / 2**20, 1), "before_mb": round(before / 2**20, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="small_cnn")
    parser.add_argument("--shape", type=int, nargs=3, default=(3, 16, 16))
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(GIVEN_BACK)
    variants = [(given.chunk, None), (given.batch, given.chunk), (given.batch, None)]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        lines = []
        for variant in variants:
            lines.append(pool.apply(measure, (*variant, given)))
            print(json.dumps(lines[-1]), flush=True)
    small, cached, whole = lines
    line = {
        "encoder": given.encoder, "shape": list(given.shape), "lines": lines,
        "memory_of_chunk_batch": round(cached["peak_mb"] / small["peak_mb"], 3),
        "memory_of_whole": round(cached["peak_mb"] / whole["peak_mb"], 3),
        "time_of_whole": round(cached["seconds"] / whole["seconds"], 3),
        "hardware": torch.cuda.get_device_name() if given.device.startswith("cuda") else f"{given.threads} CPU threads",
        "torch": str(torch.__version__), "python": platform.python_version(),
    }  # fmt: skip
    print(json.dumps(line, indent=1))
    if given.out is not None:
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
