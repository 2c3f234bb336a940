"""The figures of the paper: one file each, from data to a typed description of what is drawn."""
