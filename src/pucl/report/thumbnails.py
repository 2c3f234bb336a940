"""The two sheets of thumbnails of a page: larger ones for the lists, small ones for the map."""

from typing import Any

import numpy as np

from pucl.models.evidence import Evidence, Shown
from pucl.report.png import Bytes
from pucl.report.sprites import Sheet, pack

LIST_SIDES = (96, 64, 48, 32, 24, 16)
MAP_SIDES = (48, 32, 24, 16)
LISTS_AT_MOST = 1_600_000
SHARE_OF_LISTS = 0.5
PER_TILE = 6  # bytes of the number of a tile


def sheets(evidence: Evidence, most: int) -> dict[str, Any]:
    """Sheets for the lists and the map, together at most `most` bytes; absent where rows have no pictures."""
    found: dict[str, Any] = {}
    of_lists = [shown for shown in (evidence.top, evidence.unsure) if shown.pictures is not None and len(shown)]
    most -= PER_TILE * (len(evidence.points) + sum(map(len, of_lists))) + 1_000
    if of_lists and (lists := pack(_together(of_lists), LIST_SIDES, min(LISTS_AT_MOST, int(most * SHARE_OF_LISTS)))):
        found["lists"] = {**lists.as_json(), "tile": _tiles(lists, evidence)}
        most -= len(lists.source)
    pictures = evidence.points.pictures
    if pictures is not None and (points := pack(pictures, MAP_SIDES, most)):
        found["map"] = {**points.as_json(), "tile": points.tile.tolist()}
    return found


def _together(lists: list[Shown]) -> Bytes:
    return np.concatenate([shown.pictures for shown in lists if shown.pictures is not None])


def _tiles(sheet: Sheet, evidence: Evidence) -> dict[str, list[int]]:
    """The tiles of each list, which stand on the sheet one list after the other."""
    cut = 0 if evidence.top.pictures is None else len(evidence.top)
    return {"top": sheet.tile[:cut].tolist(), "unsure": sheet.tile[cut:].tolist()}
