"""Which rows a ranker holds out, fold by fold, and which it fits to where there are very many."""

import torch
from torch import Generator, Tensor

from pucl.errors import Described, bad_argument
from pucl.numerics.logistic import stratified_folds

MAX_ROWS = 20_000  # by default, of P and of U


def unlabelled_rows(labelled: Tensor, negative: Tensor | None) -> Tensor:
    """U, the rows (n,) bool that are neither labelled positives nor confirmed negatives."""
    return ~labelled if negative is None else ~(labelled | negative)


def folds_of(owner: str, labelled: Tensor, folds: int, seed: int, negative: Tensor | None = None) -> Tensor:
    """The fold of every row (n,), at most as many as there are rows of P or of U; confirmed negatives are dealt too."""
    n_p, n_u = int(labelled.sum()), int(unlabelled_rows(labelled, negative).sum())
    if min(n_p, n_u) < 2:
        got = Described(f"{n_p} labelled and {n_u} unlabelled")
        raise bad_argument(owner, "s", "0 or 1, with at least two rows of each kind, to hold one out", got)
    count = min(folds, n_p, n_u)
    if negative is None:
        return stratified_folds(labelled, count, seed)
    fold = torch.empty(len(labelled), dtype=torch.long, device=labelled.device)
    fold[~negative] = stratified_folds(labelled[~negative], count, seed)
    fold[negative] = stratified_folds(negative[negative], count, seed)
    return fold


def fitted_rows(labelled: Tensor, max_rows: int, seed: int, negative: Tensor | None = None) -> Tensor:
    """The numbers of the rows that are fitted to: at most so many of P, of U and of the confirmed negatives."""
    kinds = [labelled, unlabelled_rows(labelled, negative), *([] if negative is None else [negative])]
    return torch.cat([_some(kind, max_rows, seed) for kind in kinds])


def _some(members: Tensor, max_rows: int, seed: int) -> Tensor:
    """The numbers of at most `max_rows` random rows of those marked, in order."""
    rows = members.nonzero().flatten()
    if len(rows) > max_rows:
        drawn = torch.randperm(len(rows), generator=Generator().manual_seed(seed))[:max_rows]
        rows = rows[drawn.to(rows.device)].sort().values
    return rows
