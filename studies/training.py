"""Images per second of training, compared with the floor: forward and backward of the encoder alone on ready tensors.

    python studies/training.py --encoders lenet5 cnn7bn --rows 4096 --batch 256 --epochs 3            # on a CPU
    python studies/training.py --device cuda --encoders resnet18 cnn13 --rows 50000 --out results.jsonl
    python studies/training.py --device cuda --encoders lenet5 --rows 60000 --jobs 8

Run and floor have the same precision, the same compile setting and are both replayed as CUDA graphs on a GPU (or both
not). An image is a sample in two views: the floor passes 2 · batch rows. The speed of a run is the median over its
epochs but the first two (compiling, recording), everything an epoch does included. The parts (views, encoder with its
projection head, loss, optimiser) are timed one by one in the same way. With ``--jobs`` as many runs take their steps in
turn on one card, compared with the same runs one after another.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from pucl.encoders import make_encoder
from pucl.encoders.inputs import Encoder, Standardise, to_float
from pucl.encoders.projection import projection_head
from pucl.losses import make_objective
from pucl.registry import entries
from pucl.training import TrainConfig
from pucl.training.optimisers import make_optimiser
from pucl.training.pretraining import PreparedRun, prepare
from pucl.training.run import train_together
from pucl.views import make_view

SHAPES = {"lenet5": (1, 28, 28), "mlp": (1, 28, 28), "resnet50": (3, 64, 64)}


def captured(step: Callable[[], object], generator: Generator | None = None) -> Callable[[], object]:
    """The step as a CUDA graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=side):
        step()
    return graph.replay


def milliseconds(step: Callable[[], object], *, cuda: bool, repeats: int) -> float:
    """The median time of one call, in blocks on a GPU so that launches overlap as they do in training."""
    for _ in range(3):
        step()
    block, times = (10 if cuda else 1), []
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(block):
            step()
        if cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - began) / block * 1e3)
    return statistics.median(times)


def floor_and_parts(name: str, x: Tensor, labelled: Tensor, options: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of the encoder alone and of every part of a step, on a batch that lies on the device."""
    cuda, shape = x.is_cuda, tuple(x.shape[1:])
    network = make_encoder(name, shape).to(x.device).train()
    whole = nn.Sequential(Encoder(Standardise.of(x), make_encoder(name, shape)), projection_head(dim(name, shape)))
    whole = whole.to(x.device).train()
    if cuda:
        for module in (network, whole):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    generator = Generator(device=x.device).manual_seed(0)
    view: Any = make_view("simclr")
    objective = make_objective("pucl")
    optimiser, _ = make_optimiser(TrainConfig(), whole)
    ready = to_float(x).repeat_interleave(2, dim=0)
    if cuda:
        ready = ready.contiguous(memory_format=torch.channels_last)
    fast: Any = network
    fast_whole: Any = whole
    if options.compile:
        fast, fast_whole, view = (torch.compile(part, dynamic=False) for part in (network, whole, view))

    def passes(module: nn.Module) -> Callable[[], object]:
        def step() -> None:
            with torch.autocast(x.device.type, torch.bfloat16, enabled=cuda):
                z = module(ready)
            module.zero_grad(set_to_none=True)
            z.float().square().mean().backward()

        return step

    z = torch.randn(len(ready), 128, device=x.device, dtype=torch.bfloat16 if cuda else torch.float32).requires_grad_()

    def loss() -> None:
        z.grad = None
        objective(z[0::2], z[1::2], labelled).backward()  # type: ignore[no-untyped-call]

    passes(fast_whole)()  # the optimiser needs gradients
    steps: dict[str, tuple[Callable[[], object], Generator | None]] = {
        "floor": (passes(fast), None),
        "encoder and head": (passes(fast_whole), None),
        "views": (lambda: view(to_float(x).repeat_interleave(2, dim=0), generator), generator),
        "loss": (loss, None),
        "optimiser": (optimiser.step, None),
    }
    times = {}
    for part, (step, random) in steps.items():
        run = captured(step, random) if cuda else step
        times[part] = milliseconds(run, cuda=cuda, repeats=options.repeats)
    return times


def dim(name: str, shape: tuple[int, ...]) -> int:
    from pucl.encoders import embedding_dim

    return embedding_dim(make_encoder(name, shape), shape)


def job(
    name: str, x: Tensor, labelled: Tensor, options: argparse.Namespace, seed: int, capture: bool | None = None
) -> PreparedRun:
    speed_options: dict[str, Any] = {"compile": options.compile, "capture": capture}
    config = TrainConfig(epochs=options.epochs, batch_size=options.batch, seed=seed, **speed_options)
    return prepare(x, labelled, encoder=name, view="simclr", config=config, device=options.device)


def speed(work: PreparedRun) -> float:
    return statistics.median(epoch.images_per_second for epoch in work.run.history[2:])


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    shape = SHAPES.get(name, (3, 32, 32))
    generator = Generator().manual_seed(0)
    x = torch.randint(256, (options.rows, *shape), generator=generator, dtype=torch.uint8)
    labelled = torch.arange(options.rows) < options.rows // 50
    figures: dict[str, Any] = {"encoder": name, "shape": shape, "batch": options.batch, "compile": options.compile}
    if options.jobs > 1:
        return figures | jobs(name, x, labelled, options)
    device = torch.device(options.device)
    parts = floor_and_parts(name, x[: options.batch].to(device), labelled[: options.batch].to(device), options)
    work = job(name, x, labelled, options, seed=0)
    train_together([work.run])
    rate = speed(work)
    figures |= {
        "images_per_second": round(rate, 1),
        "seconds_per_50000": round(50_000 / rate, 3),
        "floor_images_per_second": round(options.batch / parts["floor"] * 1e3, 1),
        "share_of_floor": round(rate * parts["floor"] / options.batch / 1e3, 3),
        "milliseconds": {part: round(value, 3) for part, value in parts.items()},
    }
    return figures


def jobs(name: str, x: Tensor, labelled: Tensor, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of training: runs in turn on one card, the same runs one after another, and those without graphs."""
    train_together([job(name, x, labelled, options, 0).run])  # warms up
    seconds: dict[str, Any] = {"jobs": options.jobs, "epochs": options.epochs}
    for order in ("together", "one after another", "one after another, no graphs"):
        capture = False if "no graphs" in order else None
        works = [job(name, x, labelled, options, seed, capture) for seed in range(options.jobs)]
        groups = [works] if order == "together" else [[work] for work in works]
        began = time.perf_counter()
        for group in groups:
            train_together([work.run for work in group])
        seconds[order] = round(time.perf_counter() - began, 3)
    for order in ("one after another", "one after another, no graphs"):
        seconds[f"times faster than {order}"] = round(seconds[order] / seconds["together"], 2)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=sorted(set(entries("encoders")) - {"mlp"}))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    torch.backends.cudnn.benchmark = True  # as in training
    where = {
        "hardware": torch.cuda.get_device_name() if cuda else f"{torch.get_num_threads()} CPU threads",
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    for name in options.encoders:
        line = json.dumps({**measure(name, options), **where})
        print(line, flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
