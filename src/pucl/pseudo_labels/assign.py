"""Which of two centres is nearer, computed by PyTorch or by Faiss: the same answer."""

import torch
from torch import Tensor

from pucl.errors import InputError

BACKENDS = ("torch", "faiss")


def nearer_to_first(rows: Tensor, centres: Tensor, backend: str = "torch") -> Tensor:
    """Whether each row is strictly nearer to the first centre, (n,) bool.

        ‖z − a‖² < ‖z − b‖²  ⇔  z · (b − a) < (‖b‖² − ‖a‖²) / 2

    where a and b are the two centres.
    """
    if backend == "faiss":
        return _by_faiss(rows, centres)
    first, second = centres
    return torch.lt(torch.mv(rows, second - first), (second.pow(2).sum() - first.pow(2).sum()) / 2)


def _by_faiss(rows: Tensor, centres: Tensor) -> Tensor:
    try:
        import faiss
    except ImportError:
        raise InputError("pupl: backend='faiss' needs the faiss package: pip install 'pucl[faiss]'") from None
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(
        centres.flip(0).to("cpu", torch.float32).contiguous().numpy()
    )  # of equal distances the second centre's wins
    _, nearest = index.search(rows.to("cpu", torch.float32).contiguous().numpy(), 1)
    return torch.from_numpy(nearest[:, 0] == 1).to(rows.device)
