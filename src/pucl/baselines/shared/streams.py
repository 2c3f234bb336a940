"""Settings of methods whose steps need a fixed number of labelled rows beside the unlabelled ones."""

from dataclasses import dataclass

from pucl.baselines.shared.settings import Settings
from pucl.errors import bad_argument


@dataclass(frozen=True, kw_only=True)
class StreamSettings(Settings):
    """Batches in two streams: `labelled_batch` rows of P, then `batch_size` rows of U."""

    batch_size: int = 128
    labelled_batch: int | None = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labelled_batch is None:
            raise bad_argument(type(self).__name__, "labelled_batch", "a whole number ≥ 1", None)
