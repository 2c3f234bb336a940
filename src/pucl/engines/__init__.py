"""Engines that run work on several machines; they know nothing of what the work is."""

from dataclasses import dataclass

from pucl.errors import bad_argument, check_known

NAMES = ("ray",)


@dataclass(frozen=True)
class Engine:
    """Who does the work.

    Attributes:
        name: ``"ray"``; this process when None.
        address: of the Ray cluster, see `run_on_ray`.
    """

    name: str | None = None
    address: str | None = None

    def check(self, owner: str) -> None:
        """Refuse an engine that there is not."""
        if self.name is not None:
            check_known(owner, "engine", [self.name], NAMES)
        elif self.address is not None:
            raise bad_argument(owner, "address", "left out without engine='ray'", self.address)


HERE = Engine()
