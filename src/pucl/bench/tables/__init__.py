"""PU methods on real tables: ranking, decisions, π̂ and its coverage, promises against the truth, time."""
