"""Averages over a run: teachers whose weights follow those of a student, and the weights of the best epoch."""

import copy
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def teacher_of(student: M) -> M:
    """A copy of the student that no gradient reaches, in evaluation mode."""
    return copy.deepcopy(student).requires_grad_(False).eval()


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """Draw the teacher after the student; buffers, such as the statistics of norms, are copied.

    θ' ← decay · θ' + (1 − decay) · θ
    """
    theirs, ours = ([parameter.detach() for parameter in one.parameters()] for one in (teacher, student))
    torch._foreach_lerp_(theirs, ours, 1 - decay)
    for buffer, source in zip(teacher.buffers(), student.buffers(), strict=True):
        buffer.copy_(source)


class Best:
    """The weights of the epoch with the lowest value of a criterion, which must not need the truth."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.value = float("inf")
        self.weights = {name: value.clone() for name, value in network.state_dict().items()}

    def look(self, value: float) -> None:
        """Keep the present weights if their value is the lowest so far."""
        if value < self.value:
            self.value = value
            for name, tensor in self.network.state_dict().items():
                self.weights[name].copy_(tensor)

    def restore(self) -> None:
        """Put the best weights back; those of the beginning if there never was a finite value."""
        self.network.load_state_dict(self.weights)
