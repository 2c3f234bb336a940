"""Heads that a model folder can hold: each gives the numbers and tensors it is made of, and is made again from them."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from torch import Tensor, nn

from pucl.registry import entries

Takes = Literal["embedding", "rows"]


@dataclass(frozen=True)
class HeadParts:
    """A head as files hold it.

    Attributes:
        kind: which class of head, see `StoredHead.kind`.
        options: what JSON holds of it, by name: numbers, texts, and lists and dictionaries of them.
        tensors: its tensors by name, on the CPU.
    """

    kind: str
    options: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


class StoredHead(nn.Module):
    """Base class of heads that can be stored. A subclass in a file of `heads/` is found by its `kind`.

    Attributes:
        kind: the name in model folders. Where a function that fits such a head is registered, it has the same name.
        takes: ``"embedding"`` for the vectors that the encoder of a model gives, of length 1, or ``"rows"`` for the
            rows as they come out of the model's schema.
    """

    kind: ClassVar[str]
    takes: ClassVar[Takes] = "embedding"

    def to_parts(self) -> HeadParts:
        """What `from_parts` needs to make the same head again."""
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in self.state_dict().items()}
        return HeadParts(self.kind, self.options(), tensors)

    def options(self) -> dict[str, Any]:
        """What is not among the tensors; nothing by default."""
        return {}

    @classmethod
    @abstractmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The head that `to_parts` described. Parts that do not fit raise KeyError, ValueError or RuntimeError."""


def stored_heads() -> Mapping[str, type[StoredHead]]:
    """Every kind of head that can be stored, in alphabetical order; imports the files of `heads/`."""
    entries("heads")
    return MappingProxyType({head.kind: head for head in sorted(StoredHead.__subclasses__(), key=lambda c: c.kind)})


def heads_of_models() -> tuple[str, ...]:
    """The registered heads that can be stored, in alphabetical order: those that a model can be fitted with."""
    return tuple(kind for kind in stored_heads() if kind in entries("heads"))


def head_from_parts(parts: HeadParts) -> StoredHead:
    """The head of these parts, in evaluation mode; a kind that is not known raises KeyError."""
    return stored_heads()[parts.kind].from_parts(parts).eval()
