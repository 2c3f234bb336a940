"""Imagewoof and Imagenette: ten breeds of dog and ten easy classes of ImageNet."""
# ruff: noqa: ARG001  (the official split is fixed: the seed decides nothing)

from dataclasses import replace
from pathlib import Path

from pucl.data import Dataset
from pucl.data.readers.image_folder import list_images, read_image_split
from pucl.data.sources import data_root, get_source
from pucl.data.tasks import Split, binary_task
from pucl.errors import MissingDataError
from pucl.registry import register

IMAGEWOOF = (
    "n02086240",  # Shih-Tzu
    "n02087394",  # Rhodesian ridgeback
    "n02088364",  # beagle
    "n02089973",  # English foxhound
    "n02093754",  # Border terrier
    "n02096294",  # Australian terrier
    "n02099601",  # golden retriever
    "n02105641",  # Old English sheepdog
    "n02111889",  # Samoyed
    "n02115641",  # dingo
)
IMAGENETTE = (
    "n01440764",  # tench
    "n02102040",  # English springer, a dog
    "n02979186",  # cassette player
    "n03000684",  # chain saw
    "n03028079",  # church
    "n03394916",  # French horn
    "n03417042",  # garbage truck
    "n03425413",  # gas pump
    "n03445777",  # golf ball
    "n03888257",  # parachute
)


@register("datasets", reference="sec:add_exp", inputs=("image",))
def imagenet2(*, seed: int = 0, size: int = 64, skip_unreadable: bool = False) -> Dataset:
    """ImageNet-II: Imagewoof against Imagenette; training prior 0.488.

    The paper's words are "Imagewoof (P) vs ImageNette (N)", so membership decides, not the animal: the dingo of
    Imagewoof (n02115641) is positive and the English springer of Imagenette (n02102040), a dog, is negative.

    Both must be there in the same resolution (``imagewoof2-64`` and ``imagenette2-64``, or -160, -320, or the full
    ones): with two resolutions a classifier could tell them apart by their blur.

    Args:
        seed: without effect, the split is the published one.
        size: the side of the images in pixels; smaller sides are scaled up or down, of the longer the middle is kept.
        skip_unreadable: leave out images that cannot be read, with a warning, instead of stopping at the first.
    """
    woof, nette = _folders()

    def read(part: str) -> Split:
        folders = [woof / part / name for name in IMAGEWOOF] + [nette / part / name for name in IMAGENETTE]
        groups = [list_images(folder) for folder in folders]
        return read_image_split(groups, size=size, mode="RGB", skip_unreadable=skip_unreadable)

    train, test = read("train"), read("val")
    task = binary_task("imagenet2", (*IMAGEWOOF, *IMAGENETTE), IMAGEWOOF, IMAGENETTE, train=train, test=test)
    return replace(task, positive="Imagewoof", negative="Imagenette")


def _folders() -> tuple[Path, Path]:
    """The folders of both, in the smallest resolution that both have."""
    woof, nette = get_source("imagewoof"), get_source("imagenette")
    pairs = [(data_root() / a, data_root() / b) for a, b in zip(woof.folders, nette.folders, strict=True)]
    for pair in pairs:
        if all(folder.is_dir() for folder in pair):
            return pair
    present = [folder.name for pair in pairs for folder in pair if folder.is_dir()]
    get = "run 'pucl data prepare imagenet2' or set PUCL_DATA to the folder that holds both"
    if not present:
        names = " and ".join(folder.name for folder in pairs[0])
        raise MissingDataError(f"imagenet2: {names} (or larger ones) are missing, looked for in {data_root()}; {get}")
    raise MissingDataError(
        "imagenet2: Imagewoof and Imagenette must have the same resolution, "
        f"found {', '.join(present)} in {data_root()}; move away the folder without a partner and {get}"
    )
