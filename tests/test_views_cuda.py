"""Views on a GPU: they never wait for it, and give what the CPU gives."""

from typing import Any

import pytest
import torch
from torch import Generator

from pucl.views import make_view
from pucl.views.colour import Colour
from pucl.views.crop import Crop
from pucl.views.simclr import apply
from view_examples import images, some_colours, some_crops


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.cuda
@pytest.mark.parametrize("name", ["simclr", "scarf", "vector"])
def test_nothing_waits_for_the_device(name: str) -> None:
    shape = (16, 3, 32, 32) if name == "simclr" else (16, 8)
    options: dict[str, Any] = {"blur": 0.5} if name == "simclr" else {}
    x, g = images(*shape).cuda(), Generator("cuda").manual_seed(0)
    view = make_view(name, **options)
    view(x, g)
    try:
        torch.cuda.set_sync_debug_mode("error")
        out = view(x, g)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert out.shape == x.shape and out.isfinite().all()


@pytest.mark.cuda
def test_devices_agree() -> None:
    x, crop, colour, sigma = images(5, 3, 32, 32), some_crops(), some_colours(), torch.full((5,), 0.7)
    crop_there, colour_there = Crop(*(p.cuda() for p in crop)), Colour(*(p.cuda() for p in colour))
    there = apply(x.cuda(), crop_there, colour_there, sigma.cuda())
    torch.testing.assert_close(there.cpu(), apply(x, crop, colour, sigma), rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("default")  # the compiler itself uses what PyTorch calls deprecated
@pytest.mark.cuda
def test_compiled_is_the_same_view() -> None:
    x = images(16, 3, 32, 32).cuda()
    plain, fast = (make_view("simclr", compiled=c)(x, Generator("cuda").manual_seed(0)) for c in (False, True))
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-5)
