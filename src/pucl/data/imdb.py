"""IMDb: reviews of films; 25,000 to train, 25,000 to test, half of them positive."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from pucl.data import Dataset
from pucl.data.readers.texts import read_text_folders
from pucl.data.sources import get_source
from pucl.data.tasks import binary_task
from pucl.registry import TEXT, register

POSITIVE, NEGATIVE = "pos", "neg"  # the names of the folders


@register("datasets", reference="Maas et al. 2011", inputs=(TEXT,))
def imdb1(*, seed: int = 0) -> Dataset:
    """IMDb: reviews of 7 stars or more against those of 4 or fewer; prior 0.5.

    The 50,000 reviews without a class that come with them are left out.
    """
    path, names = get_source("imdb").path, (POSITIVE, NEGATIVE)
    train, test = (read_text_folders([path(part) / name for name in names]) for part in ("train", "test"))
    return binary_task("imdb1", names, (POSITIVE,), (NEGATIVE,), train=train, test=test, kind="text")
