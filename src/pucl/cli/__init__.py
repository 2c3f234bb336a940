"""The ``pucl`` command: one module for each group of verbs."""
