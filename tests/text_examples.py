"""Small mails for tests: about batteries, or about parcels."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pucl.data.newsgroups import NEGATIVE, POSITIVE

BATTERY = ("battery", "hot", "smoke", "charger", "swollen", "heat", "smell", "burn")
ORDERS = ("parcel", "late", "invoice", "refund", "courier", "address", "price", "box")
SHARED = ("hello", "please", "phone", "model", "bought", "week", "order", "help")


def mails(n: int = 240, seed: int = 0) -> tuple[list[str], NDArray[np.bool_], NDArray[np.int64]]:
    """Texts of ten words, which of them are about batteries, and s: a third of these is labelled."""
    rng = np.random.default_rng(seed)
    about = rng.random(n) < 0.4
    texts = [" ".join(rng.choice((*SHARED, *(BATTERY if battery else ORDERS)), size=10)) for battery in about]
    return texts, about, (about & (rng.random(n) < 0.35)).astype(int)


def write_newsgroups(root: Path, per_group: int) -> Path:
    """Small files in the format of 20 Newsgroups, the positive groups about batteries; the folder they lie in."""
    folder = root / "20newsgroups" / "orangecontrib" / "text" / "datasets"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        lines = ["Category\tText", "d\tstring", "class\t", ""]
        for number in range(per_group):
            for group in (*POSITIVE, *NEGATIVE):
                words = rng.choice((*SHARED, *(BATTERY if group in POSITIVE else ORDERS)), size=10)
                lines.append(f"{group}\t{group} {number}: {' '.join(words)}")
        (folder / f"20newsgroups-{part}.tab").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
