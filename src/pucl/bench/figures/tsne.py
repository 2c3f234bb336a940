"""Embeddings of test rows by t-SNE, a panel for each objective."""

from pucl.bench.figures.maps import Maps
from pucl.registry import register


@register("figures", reference="fig:tsne_puCL", inputs=("image",))
def tsne_pucl() -> Maps:
    """t-SNE of the embeddings of ssCL, puCL at several γ and sCL."""
    only = ("task=cifar_hard", "objective=sscl,pucl,scl", "seed=0", "readout=knn", "epoch=None")
    return Maps("Embeddings as more positives are labelled (t-SNE)", only, columns=3)


@register("figures", reference="figure:puNCE_tsne", inputs=("image",))
def tsne_punce() -> Maps:
    """t-SNE of the embeddings of ssCL, puCL, puNCE with the true π, and sCL."""
    only = (
        "task=cifar_hard", "objective=sscl,pucl,punce,scl", "n_labelled=3000", "seed=0", "readout=knn"
    )  # fmt: skip
    return Maps("Embeddings without labels, with some, with π, and with all (t-SNE)", only, columns=2)
