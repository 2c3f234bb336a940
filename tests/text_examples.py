"""Small mails for tests: about batteries, or about parcels."""

import numpy as np
from numpy.typing import NDArray

BATTERY = ("battery", "hot", "smoke", "charger", "swollen", "heat", "smell", "burn")
ORDERS = ("parcel", "late", "invoice", "refund", "courier", "address", "price", "box")
SHARED = ("hello", "please", "phone", "model", "bought", "week", "order", "help")


def mails(n: int = 240, seed: int = 0) -> tuple[list[str], NDArray[np.bool_], NDArray[np.int64]]:
    """Texts of ten words, which of them are about batteries, and s: a third of these is labelled."""
    rng = np.random.default_rng(seed)
    about = rng.random(n) < 0.4
    texts = [" ".join(rng.choice((*SHARED, *(BATTERY if battery else ORDERS)), size=10)) for battery in about]
    return texts, about, (about & (rng.random(n) < 0.35)).astype(int)
