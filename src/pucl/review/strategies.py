"""The names of the ways to pick rows for a sheet; see `pucl.review.picking`."""

LIKELY, DOUBTFUL, DIFFERENT, MIXED, RANDOM = "likely", "doubtful", "different", "mixed", "random"
STRATEGIES = (LIKELY, DOUBTFUL, DIFFERENT, MIXED, RANDOM)
