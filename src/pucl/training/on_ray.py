"""The processes of a run as workers of a Ray cluster, instead of those that `torchrun` starts."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pucl import __version__
from pucl.engines.ray_pool import connected
from pucl.errors import Described, InputError, RunError, bad_argument, how_to_install
from pucl.weights import need

RESTARTS = 3  # how often all workers are started again after one of them was lost

R = TypeVar("R")


def train_on_ray(
    function: Callable[[], R], *, workers: int, folder: Path, owner: str, address: str | None = None, gpus: bool = True
) -> R:
    """What `function` gives on the first of several workers, which Ray has joined into one group of processes.

    When a worker is lost, all are started again, so the function should save its work and continue from there. An error
    of pucl's own ends all workers at once.

    Args:
        function: is called on every worker; it can be pickled.
        workers: how many, each with one GPU, or one CPU if the cluster has no GPU.
        folder: that all workers see; Ray keeps its own files there while this lasts.
        owner: what the user called.
        address: of the cluster: ``"auto"`` for the one that runs on this machine, ``"host:port"``, ``"ray://host:port"``;
            that of ``RAY_ADDRESS`` or a new one on this machine when not given.
        gpus: whether to use GPUs that the cluster has.
    """
    train, torch = (
        need(name, f"{owner} --engine ray", how_to_install("ray")) for name in ("ray.train", "ray.train.torch")
    )
    with connected(owner, address) as ray:
        kind, reason = _kind_of_workers(ray, owner, workers, gpus=gpus), ""
        try:
            for _ in range(1 + RESTARTS):
                trainer = torch.TorchTrainer(
                    _work,
                    train_loop_config={"function": function, "version": __version__},
                    scaling_config=train.ScalingConfig(num_workers=workers, use_gpu=kind == "GPU"),
                    run_config=train.RunConfig(storage_path=str(folder / "ray")),
                )
                try:
                    result: R = trainer.fit().return_value
                except train.TrainingFailedError as error:
                    reason = _reason(error)
                else:
                    return result
        finally:
            shutil.rmtree(folder / "ray", ignore_errors=True)
    raise RunError(f"{owner}: workers were lost {1 + RESTARTS} times, the last time by: {reason}")


def _work(given: dict[str, Any]) -> Any:
    """What a worker does."""
    if given["version"] != __version__:
        raise RunError(
            f"the workers have pucl {__version__} and the command has pucl {given['version']}; install the same "
            "version everywhere"
        )
    return given["function"]()


def _kind_of_workers(ray: Any, owner: str, workers: int, *, gpus: bool) -> str:
    """GPU or CPU; fewer of them than workers would make Ray wait for ever."""
    resources = ray.cluster_resources()
    kind = "GPU" if gpus and resources.get("GPU") else "CPU"
    count = int(resources.get(kind, 0))
    if workers > count:
        raise bad_argument(owner, "workers", f"at most the {kind}s of the cluster", Described(f"{workers} for {count}"))
    return kind


def _reason(error: Any) -> str:
    """Why workers were lost, in one line; an error of pucl's own is raised instead."""
    failures = list(getattr(error, "worker_failures", {}).values())
    causes = [getattr(failure, "cause", None) or failure for failure in failures]
    for cause in causes:
        if isinstance(cause, InputError | RunError):
            raise cause from None
    return " ".join(str(causes[0] if causes else error).split())[-300:]
