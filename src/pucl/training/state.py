"""Save and restore a run. Seeds and batches follow from the number of the step, so they are not stored."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pucl.distributed import gather, rank_and_world
from pucl.errors import Described, bad_argument
from pucl.training import checkpoints
from pucl.training.optimisers import restore_state, state_tensors
from pucl.training.reporting import Epoch

if TYPE_CHECKING:
    from pucl.training.run import Run


def save(run: "Run") -> Path | None:
    """Save the run where it is, if it saves itself, is in good health, and this is the first process."""
    where = run.watch.checkpoints
    if where is None or rank_and_world()[0] != 0 or not torch.isfinite(run.running):
        return None
    tensors = {f"network.{name}": value for name, value in run.network.state_dict().items()}
    tensors |= {f"optimiser.{name}": value for name, value in state_tensors(run.optimiser, run.network).items()}
    if run.average is not None:
        tensors |= {f"average.{name}": value for name, value in run.average.network.state_dict().items()}
    tensors["running"] = run.running
    state = {"history": [asdict(epoch) for epoch in run.history], "warnings": run.warnings}
    return checkpoints.save(where, step=run.at, tensors=tensors, state=state, run=run.watch.identity)


def restore(run: "Run") -> None:
    """Bring a fresh run to where its newest checkpoint was taken; without one it starts from the beginning."""
    where = run.watch.checkpoints
    if where is None:
        return
    if not run.watch.resume:
        checkpoints.check_unused(where.folder)
        return
    checkpoint = checkpoints.load(where.folder, run=run.watch.identity)
    steps = gather(torch.tensor([checkpoint.step if checkpoint else 0], device=run.device)).tolist()
    if len(set(steps)) > 1:
        got = Described(f"checkpoints of steps {steps} on the processes")
        raise bad_argument("Checkpoints", "folder", "the same folder for every process", got)
    if checkpoint is None:
        return
    if rank_and_world()[0] == 0:
        checkpoints.tidy(where)
    run.network.load_state_dict(_part(checkpoint.tensors, "network."))
    restore_state(run.optimiser, run.network, _part(checkpoint.tensors, "optimiser."))
    if run.average is not None:
        run.average.network.load_state_dict(_part(checkpoint.tensors, "average."))
    run.running.copy_(checkpoint.tensors["running"])
    run.at = checkpoint.step
    run.history = [Epoch.of_dict(fields) for fields in checkpoint.state["history"]]
    run.warnings = list(checkpoint.state["warnings"])


def _part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
