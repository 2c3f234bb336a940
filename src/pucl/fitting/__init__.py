"""From rows and s to a model: choices made from the data, candidates compared without negatives, one model fitted."""
