"""Every reader that is tried."""

from fuzz import arrays, lists, official, pictures, stored, tables
from fuzz.reader import Reader

READERS: tuple[Reader, ...] = (
    *official.READERS,
    *pictures.READERS,
    *tables.READERS,
    *arrays.READERS,
    *lists.READERS,
    *stored.READERS,
)
