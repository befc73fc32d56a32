"""Find the submissions in a folder or a zip file. Nothing is unpacked to disk, nothing is run."""

import hashlib
import os
import re
import stat
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autograder.layout import Chapter
from autograder.rebuild import MAX_FILE

MAX_FILES = 20_000
IGNORED = {"__MACOSX", ".ipynb_checkpoints", "__pycache__"}


@dataclass(frozen=True)
class Submission:
    """What one student handed in, or why it could not be taken.

    `student` is empty when a file belongs to no student.
    """

    student: str
    path: str
    content: bytes | None = None
    problem: str | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content or b"").hexdigest()


class CollectError(ValueError):
    """The folder or zip file as a whole cannot be used."""


@dataclass(frozen=True)
class _File:
    path: PurePosixPath
    content: bytes | None = None
    problem: str | None = None


def collect(path: Path, chapter: Chapter) -> list[Submission]:
    """The submissions in nbgrader's layout (STUDENT/CHAPTER/NAME.ipynb), as STUDENT/NAME.ipynb or as STUDENT.ipynb.

    Args:
        path: a folder, or a zip file as Moodle and Canvas make them.
        chapter: whose submissions are wanted; those of other chapters are left out.

    Returns:
        One entry a student, sorted, and one for each file that had to be refused.

    Raises:
        CollectError: `path` does not exist, is no folder and no zip file, or holds too many files.
    """
    if path.is_dir():
        files = list(_files_of_folder(path))
    elif zipfile.is_zipfile(path):
        files = _without_wrapper(list(_files_of_zip(path)), chapter)
    elif path.exists():
        raise CollectError(f"{path} is neither a folder nor a zip file.")
    else:
        raise CollectError(f"There is no folder or zip file {path}.")

    refused, candidates = [], defaultdict(list)
    for file in files:
        if file.problem:
            refused.append(Submission("", str(file.path), problem=file.problem))
            continue
        name = _owner(file.path, chapter)
        if name is None:
            continue
        student = safe_name(name)
        if not student:
            refused.append(Submission("", str(file.path), problem=f"{name!r} cannot be a student's id; rename it."))
        else:
            candidates[student].append(file)
    taken = [_choose(student, found, chapter) for student, found in sorted(candidates.items())]
    return taken + refused


def safe_name(name: str) -> str:
    """A student's id that can be a folder's name: letters, digits and `.+@_-`. Empty when there is none."""
    name = re.sub(r"_assignsubmission_(file|onlinetext)_?$", "", unicodedata.normalize("NFC", name).strip())
    name = re.sub(r"[\s,]+", "-", name)
    return name if re.fullmatch(r"\w[\w.+@-]{0,99}", name) and ".." not in name else ""


def _owner(path: PurePosixPath, chapter: Chapter) -> str | None:
    """Whose file this is; None for the files of other chapters and those that accompany a notebook."""
    parts = path.parts
    if len(parts) == 1:
        return path.stem
    if len(parts) >= 3 and parts[-2] == chapter.id:
        return parts[-3]
    return parts[0] if len(parts) == 2 else None


def _choose(student: str, files: list[_File], chapter: Chapter) -> Submission:
    notebooks = [file for file in files if file.path.suffix == ".ipynb"]
    exact = [file for file in notebooks if file.path.name == f"{chapter.name}.ipynb" or len(file.path.parts) == 1]
    found = exact or notebooks
    names = ", ".join(str(file.path) for file in found or files)
    if not found:
        return Submission(student, names, problem=f"There is no notebook, only {names}.")
    if len(found) > 1:
        problem = f"There are {len(found)} notebooks for one student: {names}. Leave one."
        return Submission(student, names, problem=problem)
    return Submission(student, names, content=found[0].content)


def _files_of_folder(root: Path) -> Iterator[_File]:
    """Every file, those that are no regular file with the reason why they are refused."""
    count = 0
    for folder, subfolders, names in os.walk(root):
        linked = [name for name in subfolders if (Path(folder) / name).is_symlink()]
        subfolders[:] = sorted(name for name in subfolders if name not in linked and not _is_junk(name))
        for name in sorted(names + linked):
            if _is_junk(name):
                continue
            count += 1
            if count > MAX_FILES:
                raise CollectError(f"{root} holds more than {MAX_FILES} files.")
            path = Path(folder) / name
            shown = PurePosixPath(path.relative_to(root).as_posix())
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                yield _File(shown, problem="It is a link, not a file.")
            elif not stat.S_ISREG(status.st_mode):
                yield _File(shown, problem="It is not a regular file.")
            elif status.st_size > MAX_FILE:
                yield _File(shown, problem=_too_large(status.st_size))
            else:
                yield _File(shown, path.read_bytes() if path.suffix == ".ipynb" else None)


def _files_of_zip(path: Path) -> Iterator[_File]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MAX_FILES:
            raise CollectError(f"{path} holds more than {MAX_FILES} files.")
        for member in members:
            # Archives made on Windows may separate folders by backslashes.
            shown = PurePosixPath(member.filename.replace("\\", "/"))
            if member.is_dir() or any(_is_junk(part) for part in shown.parts if part != ".."):
                continue
            if shown.is_absolute() or ".." in shown.parts or re.match(r"[A-Za-z]:", str(shown)):
                yield _File(shown, problem="Its path leads out of the zip file.")
            elif stat.S_ISLNK(member.external_attr >> 16):
                yield _File(shown, problem="It is a link, not a file.")
            elif member.file_size > MAX_FILE:
                yield _File(shown, problem=_too_large(member.file_size))
            elif shown.suffix != ".ipynb":
                yield _File(shown)
            else:
                yield _unpacked(archive, member, shown)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, shown: PurePosixPath) -> _File:
    try:
        with archive.open(member) as stream:
            content = stream.read(MAX_FILE + 1)  # the size in the archive's table may be a lie
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, ValueError) as error:
        return _File(shown, problem=f"It cannot be unpacked: {error}")
    return _File(shown, problem=_too_large(len(content))) if len(content) > MAX_FILE else _File(shown, content)


def _without_wrapper(files: list[_File], chapter: Chapter) -> list[_File]:
    """Leave out the one folder that everything was zipped in, unless that folder is a student's."""
    good = [file for file in files if not file.problem]
    tops = {file.path.parts[0] for file in good}
    if len(tops) != 1 or any(len(file.path.parts) == 1 for file in good) or "_assignsubmission_" in str(tops):
        return files
    own = {(f"{chapter.name}.ipynb",), (chapter.id, f"{chapter.name}.ipynb")}
    if any(file.path.parts[1:] in own for file in good):
        return files
    return [file if file.problem else _File(PurePosixPath(*file.path.parts[1:]), file.content) for file in files]


def _is_junk(name: str) -> bool:
    return name in IGNORED or name.startswith(".")


def _too_large(size: int) -> str:
    return f"It is too large: {size / 2**20:.0f} MiB, and {MAX_FILE // 2**20} MiB are allowed."
