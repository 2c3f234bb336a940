"""What a step of pretraining costs on 1 to 1,000 GPUs, by a model of its parts, and how far the model is from runs.

    python studies/scaling.py                          # the tables of docs/scaling.md, from stored measurements
    python studies/scaling.py --check --out lines.jsonl  # and 1, 2 and 4 processes (gloo, CPU) against the model

On p GPUs a step of B samples takes (names as in `Machine` and `Network`)

    encoder:    2 B F / (p r)                              F: FLOPs of one view, forward and backward
    log Z:      6 d (2 B)² / (p q)                         three products of 2 B rows of width d
    gather:     2 [(p − 1) / p · 2 B (d s + 8) / β + a]    rows forward and backward, with log Z and its gradient
    batch norm: 2 L a                                      L layers, each waits for all processes, forward and backward
    gradients:  max(0, 2 (p − 1) / p · 4 W / β − ½ encoder) + a    W weights, sent while the backward pass goes on
    rest:       the larger of views and optimiser, and of launching kernels one by one, which p > 1 needs

where a = log₂(p) · latency is what one message among all costs however short it is, and β what a GPU sends a second.
r and q come from the stored measurements of one H200; β, latency and other networks' r are assumptions, not
measurements, and the tables say so.
"""

import argparse
import json
import math
import multiprocessing
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.flop_counter import FlopCounterMode

from pucl.distributed import gather
from pucl.encoders import embedding_dim, make_encoder
from pucl.encoders.projection import projection_head
from pucl.losses import make_objective
from pucl.training import TrainConfig
from pucl.training.pretraining import prepare

STORED = Path(__file__).parents[1] / "results" / "studies"
DIM, BYTES = 128, 2  # of a projection, in bfloat16
GPUS = (1, 8, 64, 256, 1000)
NODE = 8
IMAGES = 10**9
ENCODER, SHAPE, BATCH = "small_cnn", (3, 16, 16), 512  # of the runs on this machine
STEPS = 4


@dataclass(frozen=True)
class Machine:
    """One GPU and its connections.

    Attributes:
        rate: FLOP/s of an encoder.
        log_z: FLOP/s of the kernel of log Z.
        inside: bytes per second that a GPU sends inside a node (assumed: NVLink, 450 GB/s).
        between: and between nodes (assumed: one 400 Gb/s port for each GPU).
        latency: seconds that doubling the number of processes adds to a message (assumed: 5 µs).
        rest: seconds of views and optimiser for 2,048 views of 32 × 32.
        launches: seconds in which Python launches the kernels of a step (LOG.md, eight LeNets: 11.0 s for 1,400 steps).
    """

    rate: float
    log_z: float
    inside: float = 450e9
    between: float = 50e9
    latency: float = 5e-6
    rest: float = 0.0007
    launches: float = 0.0078


@dataclass(frozen=True)
class Network:
    """An encoder with its head: FLOPs of one view forward and backward, weights, layers of batch norm."""

    name: str
    flops: float
    weights: int
    norms: int

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...]) -> "Network":
        """Counted on a batch of two blank images."""
        encoder = make_encoder(name, shape)
        network = nn.Sequential(encoder, projection_head(embedding_dim(encoder, shape), out=DIM))
        counter = FlopCounterMode(display=False)
        with counter:
            network(torch.zeros(2, *shape)).sum().backward()
        return cls(
            f"{name}, {' × '.join(map(str, shape))}",
            counter.get_total_flops() / 2,
            sum(p.numel() for p in network.parameters()),
            sum(isinstance(module, _BatchNorm) for module in network.modules()),
        )


def step_seconds(network: Network, machine: Machine, gpus: int, batch: int) -> dict[str, float]:
    """The seconds of every part of a step; see the head of this file."""
    p, rows = gpus, 2 * batch
    beta = machine.inside if p <= NODE else machine.between
    message = math.log2(p) * machine.latency
    others = (p - 1) / p
    encoder = rows * network.flops / (p * machine.rate)
    gradients = 2 * others * 4 * network.weights / beta
    rest = machine.rest * rows / (2048 * p)
    parts = {
        "encoder": encoder,
        "log Z": 6 * DIM * rows**2 / (p * machine.log_z),
        "gather": 2 * (others * rows * (DIM * BYTES + 8) / beta + message),
        "batch norm": 2 * network.norms * message,
        "gradients": max(0.0, gradients - encoder / 2) + message,
    }
    launching = 0.0 if p == 1 else max(0.0, machine.launches - encoder - parts["log Z"] - rest)  # p = 1 replays a graph
    return {**parts, "rest": rest + launching}


def stored(name: str) -> list[dict[str, Any]]:
    """The lines of a stored measurement."""
    return [json.loads(line) for line in (STORED / name).read_text(encoding="utf-8").splitlines()]


def h200() -> Machine:
    """The rates of the stored measurements: ResNet-18 and the objective at 131,072 pairs, both in bfloat16."""
    run = next(line for line in runs() if line["encoder"] == "resnet18")
    loss = next(
        line for line in stored("losses-h200.jsonl") if line["pairs"] == 131_072 and line["dtype"] == "bfloat16"
    )
    seconds = next(line["ms"] for line in loss["lines"] if line["what"] == "pucl pucl") / 1e3
    flops = 2 * run["batch"] * Network.of("resnet18", tuple(run["shape"])).flops
    return Machine(
        rate=flops / run["milliseconds"]["encoder and head"] * 1e3,
        log_z=6 * loss["dim"] * (2 * loss["pairs"]) ** 2 / seconds,
        rest=(run["milliseconds"]["views"] + run["milliseconds"]["optimiser"]) / 1e3,
    )


def runs() -> list[dict[str, Any]]:
    """The stored runs of single encoders on one H200."""
    return [line for line in stored("training-h200.jsonl") if "milliseconds" in line]


def table(network: Network, machine: Machine, batch: int, *, each: bool) -> list[str]:
    """Markdown: one line for each number of GPUs; `batch` is that of each GPU, or of all together."""
    lines = ["| GPUs | batch | ms a step | encoder | log Z | gather | batch norm | gradients | rest | efficiency |"]
    lines.append("|---" * 10 + "|")
    alone = sum(step_seconds(network, machine, 1, batch).values()) / batch
    for gpus in GPUS:
        whole = batch * gpus if each else batch
        if whole < 2 * gpus:
            continue
        parts = step_seconds(network, machine, gpus, whole)
        seconds = sum(parts.values())
        shown = " | ".join(f"{1e3 * value:.2f}" for value in parts.values())
        efficiency = alone * whole / (gpus * seconds)
        lines.append(f"| {gpus:,} | {whole:,} | {1e3 * seconds:.2f} | {shown} | {100 * efficiency:.0f} % |")
    return lines


def report() -> None:
    """The tables of docs/scaling.md."""
    machine, small, large = h200(), Network.of("resnet18", (3, 32, 32)), Network.of("resnet50", (3, 224, 224))
    print(f"One H200: encoder {machine.rate / 1e12:.0f} TFLOP/s, log Z {machine.log_z / 1e12:.0f} TFLOP/s\n")
    for network in (small, large):
        print(f"{network.name}: {network.flops / 1e9:.2f} GFLOP a view, {network.weights / 1e6:.1f} million weights, "
              f"{network.norms} layers of batch norm")  # fmt: skip
        equal = network.flops * machine.log_z / (6 * DIM * machine.rate) / 2
        seconds = sum(step_seconds(network, machine, 1, 1024).values()) / 1024
        hours = IMAGES * seconds / 3600
        print(f"log Z costs as much as the encoder at a batch of {equal:,.0f}; {1 / seconds:,.0f} images a second; "
              f"{hours:,.1f} GPU-hours for a pass over 10⁹ images, {100 * hours:,.0f} for 100\n")  # fmt: skip
    print("| encoder | batch | measured, ms a step | model | measured / model |\n|---|---|---|---|---|")
    for run in runs():
        batch, measured = run["batch"], 1e3 * run["batch"] / run["images_per_second"]
        modelled = 1e3 * sum(step_seconds(Network.of(run["encoder"], tuple(run["shape"])), machine, 1, batch).values())
        ratio = f"{measured:.2f} | {modelled:.2f} | {measured / modelled:.2f}"
        print(f"| {run['encoder']}, {' × '.join(map(str, run['shape']))} | {batch:,} | {ratio} |")
    for title, batch, each in (
        ("a batch of 1,024 for each GPU", 1024, True),
        ("a batch of 4,096 for all", 4096, False),
        ("a batch of 32,768 for all", 32_768, False),
    ):
        for network in (small, large):
            print(f"\n{network.name}, {title}\n")
            print("\n".join(table(network, machine, batch, each=each)))


def run_steps(rank: int, world: int, port: int, queue: Any) -> None:
    """Processor seconds of every step on one of several processes, and of a step's messages alone."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (BATCH, *SHAPE), generator=generator, dtype=torch.uint8)
    config = TrainConfig(epochs=STEPS, batch_size=BATCH)
    labelled = torch.arange(len(x)) < 20
    work = prepare(x, labelled, encoder=ENCODER, view="simclr", config=config, device="cpu")
    times = []
    steps = work.run.steps()
    for _ in range(STEPS):
        began = time.process_time()
        next(steps)
        times.append(time.process_time() - began)
    steps.close()
    parts = {"step": statistics.median(times[1:]), "log Z": log_z_seconds(len(x) // world)}
    every: list[dict[str, float]] = [{} for _ in range(world)]
    dist.all_gather_object(every, parts)
    if rank == 0:
        queue.put({name: statistics.mean(part[name] for part in every) for name in parts})
    dist.destroy_process_group()


def log_z_seconds(pairs: int) -> float:
    """Processor seconds of the objective on ready projections, gather included."""
    z = torch.randn(2, pairs, DIM, requires_grad=True)
    objective = make_objective("pucl")
    labelled = torch.zeros(pairs, dtype=torch.bool)
    times = []
    for _ in range(STEPS):
        gather(torch.zeros(1))  # all begin together
        began = time.process_time()
        objective(z[0], z[1], labelled).backward()  # type: ignore[no-untyped-call]
        times.append(time.process_time() - began)
    return statistics.median(times[1:])


def check() -> list[dict[str, Any]]:
    """1, 2 and 4 processes on this machine; the model says that all of a step is shared out."""
    lines: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    for world in (1, 2, 4):
        queue = context.SimpleQueue()
        processes = [
            context.Process(target=run_steps, args=(rank, world, 29_500 + world, queue)) for rank in range(world)
        ]
        for process in processes:
            process.start()
        parts = queue.get()
        for process in processes:
            process.join()
        lines.append({"processes": world, **{name: round(value, 4) for name, value in parts.items()}})
        lines[-1]["step, of the model"] = round(lines[0]["step"] / world, 4)
        lines[-1]["measured / model"] = round(parts["step"] / lines[-1]["step, of the model"], 3)
        print(json.dumps(lines[-1]), flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    report()
    if given.check:
        set_up = {"encoder": ENCODER, "shape": SHAPE, "batch": BATCH}
        line = {**set_up, "lines": check(), "torch": str(torch.__version__), "python": platform.python_version()}
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
