"""``python -m pucl`` is the ``pucl`` command."""

from pucl.cli.app import main

main()
