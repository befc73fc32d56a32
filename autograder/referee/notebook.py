"""The graded notebook as formgrader shows it: the released cells, the student's answers, and our outputs."""

import base64
import json
import struct
import zlib
from typing import Any

from autograder.rebuild import Rebuilt
from autograder.release import Release
from autograder.result import CellResult, Result

MAX_PIXELS = 4000
MAX_PICTURE = 500_000  # bytes


def graded_notebook(release: Release, rebuilt: Rebuilt, graded: Result) -> dict[str, Any]:
    """In nbformat 4. Hidden tests are not in it, so that nbgrader may make feedback of it."""
    notebook: dict[str, Any] = json.loads(release.released)
    tested = {cell.grade_id: cell for cell in graded.cells}
    answered = {cell.exercise: cell for cell in graded.cells}
    for count, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), start=1):
        id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        cell["execution_count"] = count
        if id in rebuilt.answers:
            cell["source"] = rebuilt.answers[id]
            cell["outputs"] = _printed(answered[id]) if id in answered else []
        elif id in tested and not tested[id].passed:
            cell["outputs"] = [_error(tested[id])]
    return notebook


def _printed(cell: CellResult) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if cell.output:
        outputs.append({"output_type": "stream", "name": "stdout", "text": cell.output})
    for png in cell.pictures:
        outputs.append({"output_type": "display_data", "data": {"image/png": png}, "metadata": {}})
    return outputs


def _error(cell: CellResult) -> dict[str, Any]:
    lines = [f"{cell.status}: {cell.message}", *cell.traceback.splitlines()]
    return {"output_type": "error", "ename": cell.error or cell.status, "evalue": cell.message, "traceback": lines}


def pictures(claimed: object) -> list[str]:
    """Those that are PNG from the first byte to the last, and of a size that can be shown."""
    found = []
    for picture in claimed if isinstance(claimed, list) else []:
        try:
            if _is_png(base64.b64decode(picture, validate=True)):
                found.append(str(picture))
        except (ValueError, TypeError, struct.error):
            continue
    return found[:8]


def _is_png(data: bytes) -> bool:
    """Signature, checksums, a sensible size, and nothing but the chunks a picture needs."""
    if len(data) > MAX_PICTURE or not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return False
    place, kinds = 8, []
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack(">I", data[place + 8 + length : place + 12 + length])
        if zlib.crc32(kind + body) != checksum:
            return False
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
            if not (0 < width <= MAX_PIXELS and 0 < height <= MAX_PIXELS):
                return False
        kinds.append(kind)
        place += 12 + length
    allowed = {b"IHDR", b"PLTE", b"tRNS", b"pHYs", b"sRGB", b"gAMA", b"tEXt", b"IDAT", b"IEND"}
    ends = kinds[:1] == [b"IHDR"] and kinds[-1:] == [b"IEND"] and kinds.count(b"IEND") == 1
    return ends and b"IDAT" in kinds and set(kinds) <= allowed
