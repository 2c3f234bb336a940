"""MRI slices of people with and without Alzheimer's disease: 5,121 to train, 1,279 to test."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from pucl.data import Dataset
from pucl.data.readers.image_folder import list_images, read_image_split
from pucl.data.sources import get_source
from pucl.data.tasks import Split, binary_task
from pucl.registry import register

DEMENTED = ("VeryMildDemented", "MildDemented", "ModerateDemented")
HEALTHY = ("NonDemented",)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def alzheimer(*, seed: int = 0, size: int = 128, skip_unreadable: bool = False) -> Dataset:
    """Alzheimer: MRI images of demented patients against those of healthy people; prior 0.5.

    The grey slices of 176 × 208 pixels are scaled to `size` × `size`; of the longer side the middle is kept. A person
    has 32 slices, of which the lower 25 or 26 are training rows and the others test rows: a test row has its like among
    the training rows in the person, never in the height.

    Args:
        seed: without effect, the split is the published one.
        size: the side of the images in pixels.
        skip_unreadable: leave out images that cannot be read, with a warning, instead of stopping at the first.
    """
    names, path = (*DEMENTED, *HEALTHY), get_source("alzheimer-mri").path

    def read(part: str) -> Split:
        groups = [list_images(path(part) / name) for name in names]
        return read_image_split(groups, size=size, mode="L", skip_unreadable=skip_unreadable)

    return binary_task("alzheimer", names, DEMENTED, HEALTHY, train=read("train"), test=read("test"))
