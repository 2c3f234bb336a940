"""What a method may see of a data set: rows and PU labels. The truth stays behind."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pucl.data import Dataset
from pucl.data.pu_split import PUSample, make_pu
from pucl.errors import Described, bad_argument, signed_by, unknown_name

LABELLED = ("random", "balanced")


@dataclass(frozen=True)
class PUData:
    """Rows and what is observed of them.

    Attributes:
        x: the rows, labelled positives first.
        s: PU labels, True for labelled positives.
        sample: which training rows were drawn, in which setting.
        prior: the true share of positives inside the unlabelled rows, for benchmarks; None if unknown.
    """

    x: NDArray[Any]
    s: NDArray[np.bool_]
    sample: PUSample
    prior: float | None


@signed_by("pucl.observe")
def observe(
    data: Dataset, n_labelled: int, *, labelled: Literal["random", "balanced"] = "random", seed: int = 0, **options: Any
) -> PUData:
    """Label some positives of the training rows and hide everything else.

    Rows without a known class (``data.x_unlabelled``, as in STL-10) join the unlabelled set, whose prior is then
    unknown. The setting is then single-set by default: U is what remains of the labelled split together with
    these rows.

    Args:
        data: a data set with its truth.
        n_labelled: n_P, how many positives are labelled.
        labelled: ``"random"``, every positive has the same chance; ``"balanced"``, equally many of every class that the
            task counts as positive, such as trousers, coats and sneakers.
        seed: the same seed draws the same rows.
        **options: the other arguments of `make_pu`.
    """
    sample, extra = draw(data, n_labelled, labelled=labelled, seed=seed, **options), data.x_unlabelled
    if extra is None:
        return PUData(data.x_train[sample.rows], sample.s, sample, sample.prior)
    x = np.concatenate([data.x_train[sample.rows], extra])
    s = np.concatenate([sample.s, np.zeros(len(extra), dtype=bool)])
    return PUData(x, s, sample, None)


def draw(data: Dataset, n_labelled: int, *, labelled: str = "random", seed: int = 0, **options: Any) -> PUSample:
    """Which training rows `observe` draws, and what is observed of them."""
    if data.x_unlabelled is not None:
        options.setdefault("setting", "single-set")
        for name in ("n_unlabelled", "prior"):
            if options.get(name) is not None:
                allowed = f"left out for {data.name}, all of whose rows of unknown class are in U"
                raise bad_argument("pucl.observe", name, allowed, options[name])
    if labelled not in LABELLED:
        raise unknown_name("way to draw the labelled rows", labelled, LABELLED)
    if labelled == "balanced":
        if data.classes_train is None:
            got = Described("'balanced', without classes among them")
            raise bad_argument("pucl.observe", "labelled", f"'random' for the rows of {data.name}", got)
        options["classes"] = data.classes_train
    return make_pu(data.y_train, n_labelled, seed=seed, **options)
