"""``python -m pucl`` is the ``pucl`` command."""

from pucl.cli import main

main()
