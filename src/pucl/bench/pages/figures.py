"""Pictures of results; they need the ``plots`` extra."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.errors import InputError, how_to_install

POSITIVE, NEGATIVE, INK = "#d1495b", "#30638e", "#222222"


def embedding_picture(
    z: NDArray[Any], s: NDArray[np.bool_], y: NDArray[np.bool_], path: Path, *, title: str, seed: int = 0
) -> Path:
    """A t-SNE map of embeddings (n, k), coloured by the truth, the labelled positives ringed; saved to `path`."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no global state, no display
    except ImportError:
        raise InputError(f"a picture needs matplotlib: {how_to_install('plots')}") from None
    from sklearn.manifold import TSNE

    xy = TSNE(random_state=seed, init="pca", perplexity=min(30.0, (len(z) - 1) / 3)).fit_transform(z)
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    axes = figure.subplots()
    for rows, colour, name in ((~s & y, POSITIVE, "positive"), (~s & ~y, NEGATIVE, "negative")):
        legend = f"unlabelled, {name} ({rows.sum():,})"
        axes.scatter(xy[rows, 0], xy[rows, 1], s=14, c=colour, alpha=0.7, linewidths=0, label=legend)
    legend = f"labelled positive ({s.sum():,})"
    axes.scatter(xy[s, 0], xy[s, 1], s=42, c=POSITIVE, edgecolors=INK, linewidths=1.1, label=legend)
    axes.set(title=title, xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    return path
