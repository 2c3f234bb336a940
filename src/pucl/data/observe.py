"""What a method may see of a data set: rows and PU labels. The truth stays behind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data import Dataset
from pucl.data.pu_split import PUSample, make_pu
from pucl.errors import signed_by


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
def observe(data: Dataset, n_labelled: int, *, seed: int = 0, **options: Any) -> PUData:
    """Label some positives of the training rows and hide everything else.

    Rows without a known class (``data.x_unlabelled``, as in STL-10) join the unlabelled set, whose prior is then
    unknown. The setting is then single-set by default: U is what remains of the labelled split together with
    these rows.

    Args:
        data: a data set with its truth.
        n_labelled: n_P, how many positives are labelled.
        seed: the same seed draws the same rows.
        **options: the other arguments of `make_pu`.
    """
    extra = data.x_unlabelled
    if extra is not None:
        options.setdefault("setting", "single-set")
    sample = make_pu(data.y_train, n_labelled, seed=seed, **options)
    if extra is None:
        return PUData(data.x_train[sample.rows], sample.s, sample, sample.prior)
    x = np.concatenate([data.x_train[sample.rows], extra])
    s = np.concatenate([sample.s, np.zeros(len(extra), dtype=bool)])
    return PUData(x, s, sample, None)
