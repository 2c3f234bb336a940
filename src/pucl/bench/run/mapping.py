"""Maps of embeddings: test rows through a trained encoder, and t-SNE to two dimensions."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import numpy as np

from pucl.bench.grid.cells import Cell, EncoderCell, Pipeline
from pucl.bench.results.maps import EmbeddingMap
from pucl.bench.results.revisions import revisions_of
from pucl.bench.run.encoding import EncoderStore
from pucl.bench.run.exam import pose
from pucl.bench.run.pretrained import embed_rows
from pucl.bench.run.provenance import provenance

PERPLEXITY = 30.0
DIGITS = 2  # of stored coordinates, which are of the order of ten


def encoders_of(cells: Iterable[Cell]) -> list[EncoderCell]:
    """The encoders of some cells, each once."""
    return list({cell.encoder_cell.key: cell.encoder_cell for cell in cells if isinstance(cell, Pipeline)}.values())


def map_encoder(cell: EncoderCell, store: EncoderStore, points: int, commit: str | None = None) -> EmbeddingMap:
    """The map of an encoder, which is trained first if it is not stored: t-SNE of the embeddings of some test rows.

    Embeddings are normalised; t-SNE has a perplexity of 30 and starts from the first two principal components. The
    classes only colour the points.
    """
    from sklearn.manifold import TSNE

    observed, exam = pose(cell.place)
    encoder = store.encoder(cell, observed, exam).encoder
    rows, truth = exam.shown(points)
    z = embed_rows(encoder, rows).float().cpu().numpy()
    perplexity = min(PERPLEXITY, (len(z) - 1) / 3)
    places = TSNE(random_state=cell.place.seed, init="pca", perplexity=perplexity).fit_transform(z)
    x, y = np.round(places.astype(float), DIGITS).T.tolist()
    positive = "".join("01"[int(value)] for value in truth)
    origin, now = provenance(store.device, commit), datetime.now(UTC).isoformat(timespec="milliseconds")
    return EmbeddingMap(
        cell.key, cell.to_dict(), x, y, positive, exam.knn(encoder, store.device), now, revisions_of(cell),
        origin.versions, origin.hardware, origin.commit,
    )  # fmt: skip


def map_encoders(
    cells: Iterable[EncoderCell], store: EncoderStore, points: int, commit: str | None = None
) -> Iterator[EmbeddingMap]:
    """The maps of several encoders, as they come."""
    for cell in cells:
        yield map_encoder(cell, store, points, commit)
