"""TF-IDF with logistic regression: the simplest classifier of texts, for comparison."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def fit_tfidf(texts: Iterable[str], labels: NDArray[np.bool_]) -> Callable[[Any], Tensor]:
    """Texts → logits (n,) of labelled against other texts, both sides weighted alike.

        min_w  Σ_{i: l_i = 1} ℓ(w·t_i) / n_1 + Σ_{i: l_i = 0} ℓ(−w·t_i) / n_0 + ridge

    where t are the weights (1 + log tf) idf of words and pairs of words. For PU labels l, a logit above 0 says that a
    text is likelier in P than in U: likelier among positives than among negatives, if P is drawn at random.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    tfidf = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(tfidf.fit_transform(texts), labels)
    return lambda rows: torch.from_numpy(model.decision_function(tfidf.transform(rows)))
