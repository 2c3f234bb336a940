"""Running cells: data, encoders, readouts, workers, and where every number came from."""
