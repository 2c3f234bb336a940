"""Damaged and hostile files for every reader: nothing but a result or one line that names the file may come of them."""
