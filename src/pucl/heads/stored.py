"""Heads that a model folder can hold: each gives the numbers and tensors it is made of, and is made again from them."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

from torch import Tensor, nn

from pucl.registry import entries


@dataclass(frozen=True)
class HeadParts:
    """A head as files hold it.

    Attributes:
        kind: which class of head, see `StoredHead.kind`.
        options: its numbers by name, for JSON.
        tensors: its tensors by name, on the CPU.
    """

    kind: str
    options: Mapping[str, float]
    tensors: Mapping[str, Tensor]


class StoredHead(nn.Module):
    """Base class of heads that can be stored. A subclass in a file of `heads/` is found by its `kind`.

    Attributes:
        kind: the name in model folders. It is also the registered name of the function that fits such a head.
    """

    kind: ClassVar[str]

    def to_parts(self) -> HeadParts:
        """What `from_parts` needs to make the same head again."""
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in self.state_dict().items()}
        return HeadParts(self.kind, self.options(), tensors)

    def options(self) -> dict[str, float]:
        """The numbers that are not among the tensors; none by default."""
        return {}

    @classmethod
    @abstractmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The head that `to_parts` described. Parts that do not fit raise KeyError, ValueError or RuntimeError."""


def stored_heads() -> Mapping[str, type[StoredHead]]:
    """Every kind of head that can be stored, in alphabetical order; imports the files of `heads/`."""
    entries("heads")
    return MappingProxyType({head.kind: head for head in sorted(StoredHead.__subclasses__(), key=lambda c: c.kind)})


def head_from_parts(parts: HeadParts) -> StoredHead:
    """The head of these parts, in evaluation mode; a kind that is not known raises KeyError."""
    return stored_heads()[parts.kind].from_parts(parts).eval()
