"""Where the points of the scatter lie in the plane."""

from dataclasses import replace

import numpy as np

from pucl.models.evidence import Evidence

FEWEST = 10  # points below which the two main directions are enough
PERPLEXITY = 30.0


def lay_out(evidence: Evidence, seed: int = 0) -> Evidence:
    """The evidence with its points laid out by t-SNE; as it is when that was done before."""
    if evidence.embedding is None:
        return evidence
    z, place = evidence.embedding.astype(np.float32), evidence.place
    if len(z) > FEWEST:
        from sklearn.manifold import TSNE

        perplexity = min(PERPLEXITY, (len(z) - 1) / 3)
        place = np.asarray(TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(z), np.float32)
    return replace(evidence, place=place, embedding=None)
