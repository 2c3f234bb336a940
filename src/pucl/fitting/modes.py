"""Modes of fine-tuning: what becomes of the labels while encoder and head are trained together."""

from collections.abc import Mapping
from types import MappingProxyType

from pucl.errors import bad_argument

# Fixed labels suit an encoder that is good already, labels that the network renews one that is not (LOG.md).
FIXED, RENEWED, MOVING = "fixed labels", "renewed labels", "moving labels"
MODES = (FIXED, RENEWED)  # which are compared unless the user says otherwise
NAMED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"fixed": (FIXED,), "renewed": (RENEWED,), "moving": (MOVING,), "all": (FIXED, RENEWED, MOVING)}
)


def check_fine_tune(owner: str, value: bool | str) -> None:
    """Refuse what is neither true nor false nor a name of `NAMED`."""
    if value not in (NAMED if isinstance(value, str) else (True, False)):
        raise bad_argument(owner, "fine_tune", f"True, False or one of {', '.join(NAMED)}", value)


def modes_of(value: bool | str) -> tuple[str, ...]:
    """What is to be compared, the simplest first."""
    return NAMED[value] if isinstance(value, str) else MODES
