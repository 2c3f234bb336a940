"""Why a row of a table has its score: the change when one of its values is replaced by the typical one of U."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.data.own.batch import Table
from pucl.data.own.values import value_as_text
from pucl.models.evidence import Effect, Explained
from pucl.models.model import Model

EXPLAINED, EFFECTS = 5, 3  # rows that are explained, and values of each that are named
TYPICAL_ROWS = 10_000  # of U that say what is typical


def explain(
    model: Model,
    rows: Tensor,
    table: Table,
    index: NDArray[np.intp],
    unlabelled: NDArray[np.intp],
    ids: tuple[str, ...],
) -> tuple[Explained, ...]:
    """For the first rows of `index`, the values that move their scores most.

        e_j = f(x) − f(x with column j as it is typical of U)

    where f is the logit of the model: above 0, the value raises the score. One value is replaced at a time, so effects
    need not add up.

    Args:
        model: whose scores they are.
        rows: compact rows of the table, (n, c).
        table: the rows as they came.
        index: numbers of rows, the best first.
        unlabelled: numbers of the rows of U.
        ids: what the rows of `index` are called.
    """
    sources = model.schema.sources
    if not sources or model.front is not None:
        return ()
    seen = rows[torch.from_numpy(unlabelled[:: -(-len(unlabelled) // TYPICAL_ROWS)])].numpy()
    codes = set(model.schema.expand.categories) if model.schema.expand is not None else set()
    typical = {name: _typical(seen[:, list(places)], places[0] in codes) for name, places in sources.items()}
    found = []
    for number, name in zip(index[:EXPLAINED].tolist(), ids, strict=False):
        changed = rows[number].repeat(len(sources) + 1, 1)
        for k, (column, places) in enumerate(sources.items()):
            changed[k, list(places)] = torch.from_numpy(typical[column])
        logits = model.logits(changed).double().numpy()
        change = logits[-1] - logits[:-1]
        largest = np.argsort(-np.abs(change), kind="stable")[:EFFECTS]
        columns = list(sources)
        effects = [Effect(columns[k], value_as_text(table, columns[k], number), float(change[k])) for k in largest]
        found.append(Explained(name, tuple(each for each in effects if each.change)))
    return tuple(found)


def _typical(values: NDArray[np.float32], is_code: bool) -> NDArray[np.float32]:
    """The most common code, the median of a number, or of several numbers those of the row nearest to the medians."""
    known = values[~np.isnan(values).any(axis=1)]
    if not len(known):
        return np.full(values.shape[1], np.nan, np.float32)
    if is_code:
        codes, counts = np.unique(known[:, 0], return_counts=True)
        return codes[[int(counts.argmax())]]
    middle = np.median(known, axis=0).astype(np.float32)
    if len(middle) == 1:
        return middle
    return np.asarray(known[int(((known - middle) ** 2).sum(axis=1).argmin())])
