"""Seeds for every random choice of a run, computed from its place in the run instead of carried along."""

import hashlib


def seed_of(seed: int, purpose: str, number: int) -> int:
    """A seed of its own for the `number`-th epoch or step, below 2⁶³.

    Nothing has to be remembered to go on from any step, and neither the device nor the number of processes matters.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
