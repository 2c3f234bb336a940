"""The multilayer perceptron of nnPU: linear layers of 300 units with batch norm."""

from itertools import pairwise

from torch import nn

from pucl.encoders.shapes import Shape, flat_size
from pucl.registry import register


@register("encoders", reference="Kiryo et al. 2017")
def mlp(input_shape: Shape, *, width: int = 300, depth: int = 4) -> nn.Module:
    """Linear layers of `width` units with batch norm and ReLU, `depth` of them; the last has no ReLU."""
    sizes = [flat_size(input_shape)] + [width] * depth
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
