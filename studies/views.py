"""Images per second of two views of a batch, compared with the same pipeline in kornia if it is installed.

    python studies/views.py                                # on a CPU
    python studies/views.py --device cuda --compile

Every line makes two views of the same batch, which already lies on the device, with a crop, a flip, colour jitter and
greyscale of the same parameters. After a warm-up of each, the lines take turns, so that a busy machine slows them all
alike; times are medians.
kornia crops in its batched mode (its default loops over the images), turns the hue in HSV, draws the order of the steps
of the jitter, and takes its numbers from the global generator.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from pucl.views import View, make_view


def kornia_pipeline(size: tuple[int, int]) -> tuple[str, Callable[[Tensor], Tensor]] | None:
    """The views of SimCLR out of kornia's parts, and its version, if it is installed."""
    try:
        kornia, parts = import_module("kornia"), import_module("kornia.augmentation")
    except ImportError:
        return None
    pipeline = nn.Sequential(
        parts.RandomResizedCrop(size, scale=(0.2, 1.0), align_corners=False, cropping_mode="resample"),
        parts.RandomHorizontalFlip(p=0.5),
        parts.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        parts.RandomGrayscale(p=0.2),
    )
    return kornia.__version__, pipeline


def candidates(x: Tensor, *, compiled: bool) -> dict[str, Callable[[], object]]:
    """Every line of the table: what makes two views of `x`."""
    generator = Generator(device=x.device).manual_seed(0)
    view = make_view("simclr")
    twice = torch.cat([x, x])
    runs: dict[str, Callable[[], object]] = {
        "pucl simclr, both views in one call": lambda: view(twice, generator),
        "pucl simclr, two calls": lambda: (view(x, generator), view(x, generator)),
    }
    if compiled:
        fast = make_view("simclr", compiled=True)
        runs["pucl simclr, one call, compiled"] = lambda: fast(twice, generator)
    if x.is_cuda:
        runs["pucl simclr, one call, CUDA graph"] = captured(view, twice)
    kornia = kornia_pipeline((x.shape[2], x.shape[3]))
    if kornia is not None:
        version, pipeline = kornia
        runs[f"kornia {version}"] = lambda: (pipeline(x), pipeline(x))
    return runs


def captured(view: View, x: Tensor) -> Callable[[], object]:
    """The view as a CUDA graph: the same kernels, launched by the device itself."""
    generator = Generator(device=x.device).manual_seed(0)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            view(x, generator)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        view(x, generator)
    return graph.replay


def milliseconds(run: Callable[[], object], device: torch.device) -> float:
    """The time of one run."""
    if device.type != "cuda":
        begin = time.perf_counter()
        run()
        return (time.perf_counter() - begin) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def compare(x: Tensor, *, compiled: bool, repeats: int) -> list[dict[str, Any]]:
    """One table, each line with its time over that of the first."""
    runs = candidates(x, compiled=compiled)
    for run in runs.values():
        for _ in range(3):
            run()
    rounds = [[milliseconds(run, x.device) for run in runs.values()] for _ in range(repeats)]
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    return [
        {"what": name, "ms": ms, "images_per_s": 2 * len(x) / ms * 1e3, "ratio": ms / medians[0]}
        for name, ms in zip(runs, medians, strict=True)
    ]


def show(lines: list[dict[str, Any]]) -> None:
    print("| two views | ms | images/s | × pucl simclr |\n|---|---|---|---|")
    for line in lines:
        print(f"| {line['what']} | {line['ms']:.2f} | {line['images_per_s']:,.0f} | {line['ratio']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--channels", type=int, default=3, choices=[1, 3])
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="also measure the view under torch.compile")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", help="append the table as one JSON line to this file")
    given = parser.parse_args()
    device = torch.device(given.device)
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    shape = (given.batch, given.channels, given.side, given.side)
    x = torch.rand(shape, generator=Generator(device=device).manual_seed(0), device=device)
    with torch.no_grad():
        lines = compare(x, compiled=given.compile, repeats=given.repeats)
    print(f"\n{' × '.join(map(str, shape))}, float32, {hardware}, torch {torch.__version__}\n")
    show(lines)
    if given.json:
        head = {"shape": shape, "hardware": hardware, "torch": str(torch.__version__)}
        with Path(given.json).open("a", encoding="utf-8") as file:
            file.write(json.dumps(head | {"lines": lines}) + "\n")


if __name__ == "__main__":
    main()
