"""Mean teachers: networks whose weights follow those of a student."""

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def teacher_of(student: M) -> M:
    """A copy of the student that no gradient reaches, in evaluation mode."""
    return copy.deepcopy(student).requires_grad_(False).eval()


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """Draw the teacher after the student; buffers, such as the statistics of norms, are copied.

    θ' ← decay · θ' + (1 − decay) · θ
    """
    theirs, ours = ([parameter.detach() for parameter in network.parameters()] for network in (teacher, student))
    torch._foreach_lerp_(theirs, ours, 1 - decay)
    for buffer, source in zip(teacher.buffers(), student.buffers(), strict=True):
        buffer.copy_(source)


class MeanTeacher:
    """A network whose weights follow those of a student (Tarvainen & Valpola 2017).

        θ' ← d θ' + (1 − d) θ,    d = min(1 − 1 / (t + 1), decay)

    where t counts the updates. Starting from 0, the first update makes the teacher a copy of the student, and until d
    reaches `decay` its weights are the plain mean of the student's so far. Its batch norms work as in training and keep
    statistics of their own, because those of the student do not fit averaged weights. All of it can be recorded as a
    CUDA graph.

    Args:
        network: the teacher, of the same make as the student; its weights are used and changed.
        student: whom it follows.
        decay: the largest d.
        seen: t of the first update.
    """

    def __init__(self, network: nn.Module, student: nn.Module, decay: float, *, seen: int = 0) -> None:
        self.network, self.student, self.decay = network.requires_grad_(False).train(), student, decay
        self.seen = torch.tensor(float(seen), device=next(student.parameters()).device)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """Logits of raw rows by the teacher."""
        out: Tensor = self.network(x)
        return out

    @torch.no_grad()
    def update(self) -> None:
        """Move the weights of the teacher towards the present ones of the student."""
        kept = (1 - 1 / (self.seen + 1)).clamp(max=self.decay)
        theirs, ours = ([value.detach() for value in net.parameters()] for net in (self.network, self.student))
        torch._foreach_mul_(theirs, kept)
        torch._foreach_add_(theirs, torch._foreach_mul(ours, 1 - kept))
        self.seen += 1
