"""Which of two centres is nearer, computed by PyTorch or by Faiss: the same answer."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from pucl.errors import InputError, how_to_install
from pucl.numerics.starting import check_threads

BACKENDS = ("torch", "faiss")
PIECE = 1 << 21  # numbers of the rows a thread compares at a time
FEW = 0.05  # share of the rows up to which they are looked at alone; above, all are, which narrows the next search
SLACK = 1e-5  # of a float32 margin, for rounding


def margin(rows: Tensor, centres: Tensor) -> Tensor:
    """How far each row is from the border between the two centres, below 0 where the first is nearer, (n,).

        m(z) = z · (b − a) − (‖b‖² − ‖a‖²) / 2 = (‖z − a‖² − ‖z − b‖²) / 2

    where a and b are the two centres. Threads take pieces of the rows, since a product of a matrix and a vector uses
    one.
    """
    across, level = _border(centres)
    size = max(1, PIECE // rows.shape[1])
    threads = torch.get_num_threads() if rows.device.type == "cpu" else 1
    if threads == 1 or len(rows) <= size:
        return torch.mv(rows, across) - level
    check_threads(threads)
    with ThreadPoolExecutor(threads) as pool:
        return torch.cat(list(pool.map(lambda piece: torch.mv(piece, across) - level, torch.split(rows, size))))


class Sides:
    """Sides of rows under centres that move from call to call.

    A margin changes by no more than ‖z‖ ‖Δ(b − a)‖ + |Δ level| when the centres move. Only rows whose last known margin
    is smaller than that can change sides, and late in the iterations these are few.
    """

    def __init__(
        self, rows: Tensor, labelled: Tensor, backend: str = "torch", *, negative: Tensor | None = None
    ) -> None:
        self.rows, self.labelled, self.backend, self.negative = rows, labelled, backend, negative
        self.longest = float(torch.linalg.vector_norm(rows, dim=1).max())
        self.known: tuple[Tensor, Tensor, Tensor] | None = None  # margins, and the border they belong to

    def of(self, centres: Tensor) -> Tensor:
        """Whether each row is strictly nearer to the first centre, (n,) bool.

        Labelled rows always are, confirmed negatives never.
        """
        nearer = self._nearer(centres).logical_or_(self.labelled)
        return nearer if self.negative is None else nearer & ~self.negative

    def _nearer(self, centres: Tensor) -> Tensor:
        if self.backend == "faiss":
            return _by_faiss(self.rows, centres)
        across, level = _border(centres)
        if self.known is not None:
            margins, old_across, old_level = self.known
            reach = self.longest * torch.linalg.vector_norm(across - old_across) + (level - old_level).abs() + SLACK
            near = (margins.abs() <= reach).nonzero().flatten()
            if len(near) <= FEW * len(self.rows):
                nearer = margins < 0
                nearer[near] = margin(self.rows[near], centres) < 0
                return nearer
        margins = margin(self.rows, centres)
        self.known = margins, across, level
        return margins < 0


def _border(centres: Tensor) -> tuple[Tensor, Tensor]:
    first, second = centres
    return second - first, (second.pow(2).sum() - first.pow(2).sum()) / 2


def _by_faiss(rows: Tensor, centres: Tensor) -> Tensor:
    try:
        import faiss
    except ImportError:
        raise InputError(f"pupl: backend='faiss' needs the faiss package: {how_to_install('faiss')}") from None
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(centres.flip(0).to("cpu", torch.float32).contiguous().numpy())  # of equal distances the second's wins
    _, nearest = index.search(rows.to("cpu", torch.float32).contiguous().numpy(), 1)
    return torch.from_numpy(nearest[:, 0] == 1).to(rows.device)
