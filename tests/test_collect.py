"""Collecting submissions: every layout that is handed in, and files that must not be taken."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from autograder.collect import MAX_FILE, CollectError, collect, safe_name
from autograder.layout import Chapter, Course


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return Chapter(Course(tmp_path / "course"), "01-tiny")


def found(path: Path, chapter: Chapter) -> dict[str, str | bytes | None]:
    return {submission.student: submission.problem or submission.content for submission in collect(path, chapter)}


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


LAYOUTS = [
    {"ada.ipynb": b"1", "bob.ipynb": b"2"},
    {"ada/tiny.ipynb": b"1", "bob/tiny.ipynb": b"2"},
    {"ada/01-tiny/tiny.ipynb": b"1", "ada/02-other/other.ipynb": b"x", "bob/01-tiny/tiny.ipynb": b"2"},
    {"ada/renamed (1).ipynb": b"1", "bob/tiny.ipynb": b"2"},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(chapter: Chapter, tmp_path: Path, layout: dict[str, bytes]) -> None:
    expected = {"ada": b"1", "bob": b"2"}
    assert found(fill(tmp_path / "class", layout), chapter) == expected
    junk = {"__MACOSX/._ada.ipynb": b"junk", ".DS_Store": b"junk"}
    assert found(pack(tmp_path / "class.zip", layout | junk), chapter) == expected
    wrapped = {f"class/{name}": data for name, data in layout.items()}
    assert found(pack(tmp_path / "wrapped.zip", wrapped | junk), chapter) == expected


def test_moodle_folders(chapter: Chapter, tmp_path: Path) -> None:
    files = {"Ada Łovelace_123_assignsubmission_file/tiny.ipynb": b"1", "李雷_124_assignsubmission_file_/x.ipynb": b"2"}
    assert found(pack(tmp_path / "moodle.zip", files), chapter) == {"Ada-Łovelace_123": b"1", "李雷_124": b"2"}


def test_duplicates_and_missing_notebooks_are_reported(chapter: Chapter, tmp_path: Path) -> None:
    files = ["ada.ipynb", "ada/01-tiny/tiny.ipynb", "bob/report.pdf"]
    files += ["cy.ipynb", "cy/tiny.ipynb", "eve/a.ipynb", "eve/b.ipynb"]
    problems = found(fill(tmp_path / "class", dict.fromkeys(files, b"1")), chapter)
    assert all("2 notebooks" in str(problems[student]) for student in ("ada", "cy", "eve"))
    assert "no notebook, only bob/report.pdf" in str(problems["bob"])


def test_unsafe_files_are_refused(chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.collect.MAX_FILE", 1000)
    link = zipfile.ZipInfo("link.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = pack(tmp_path / "class.zip", {"../../evil.ipynb": b"1", "/etc/evil.ipynb": b"1", "C:\\evil.ipynb": b"1"})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("bomb.ipynb", b"0" * 5000)
        archive.writestr("ada.ipynb", b"1")
        archive.writestr("-rf.ipynb", b"1")
    taken = collect(path, chapter)
    assert [submission.student for submission in taken] == ["ada", "", "", "", "", "", ""]
    problems = " ".join(submission.problem or "" for submission in taken)
    assert problems.count("out of the zip file") == 3
    assert "link" in problems and "too large" in problems and "cannot be a student's id" in problems
    assert sorted(os.listdir(tmp_path)) == ["class.zip"]


def test_links_in_a_folder_are_refused(chapter: Chapter, tmp_path: Path) -> None:
    folder = fill(tmp_path / "class", {"ada.ipynb": b"1"})
    (folder / "eve.ipynb").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to(tmp_path)
    assert [(s.student, s.problem) for s in collect(folder, chapter)] == [
        ("ada", None),
        ("", "It is a link, not a file."),
        ("", "It is a link, not a file."),
    ]


def test_damaged_zip(chapter: Chapter, tmp_path: Path) -> None:
    path = pack(tmp_path / "class.zip", {"ada.ipynb": b"1" * 1000, "bob.ipynb": b"2"})
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(bytes(data))
    assert found(path, chapter)["bob"] == b"2"
    assert "cannot be unpacked" in str(found(path, chapter)[""])
    with pytest.raises(CollectError, match="no folder or zip file"):
        collect(tmp_path / "nowhere", chapter)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "-x", ".x", "=1+1", "a\0b", "x" * 200, "a..b", "a*b", "<b>"])
def test_unsafe_names(name: str) -> None:
    assert safe_name(name) == ""


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("Ada Lovelace", "Ada-Lovelace"),
        ("Lovelace, Ada", "Lovelace-Ada"),
        ("e\u0301va", "\u00e9va"),  # two ways to write the same letter are one student
        ("李雷", "李雷"),
        ("ada+l@example.org", "ada+l@example.org"),
        ("Ada_12_assignsubmission_file_", "Ada_12"),
    ],
)
def test_safe_names(name: str, id: str) -> None:
    assert safe_name(name) == id


def test_submissions_are_sorted_and_keep_their_bytes(chapter: Chapter, tmp_path: Path) -> None:
    files = {"zoe.ipynb": b"\x00\xff", "ada.ipynb": b"", "Bob.ipynb": b"[]"}
    taken = collect(fill(tmp_path / "class", files), chapter)
    assert [(one.student, one.content) for one in taken] == [("Bob", b"[]"), ("ada", b""), ("zoe", b"\x00\xff")]
    assert len({one.digest for one in taken}) == 3


def test_large_file_is_refused_and_not_read(chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "class", {"ada.ipynb": b"1"})
    with (folder / "eve.ipynb").open("wb") as file:
        file.truncate(MAX_FILE + 1)
    read = Path.read_bytes
    asked = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: asked.append(path.name) or read(path))
    assert found(folder, chapter) == {"ada": b"1", "": "It is too large: 10 MiB, and 10 MiB are allowed."}
    assert asked == ["ada.ipynb"]


def test_pipes_and_sockets_are_refused(chapter: Chapter, tmp_path: Path) -> None:
    folder = fill(tmp_path / "class", {"ada.ipynb": b"1"})
    os.mkfifo(folder / "eve.ipynb")  # reading it would wait for ever
    assert found(folder, chapter) == {"ada": b"1", "": "It is not a regular file."}


def test_too_many_files(chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.collect.MAX_FILES", 3)
    files = {f"s{i}.ipynb": b"1" for i in range(4)}
    for path in (fill(tmp_path / "class", files), pack(tmp_path / "class.zip", files)):
        with pytest.raises(CollectError, match="more than 3 files"):
            collect(path, chapter)


def test_lying_sizes_in_a_zip_file(chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive's table claims fewer bytes than there are."""
    monkeypatch.setattr("autograder.collect.MAX_FILE", 1000)
    path = pack(tmp_path / "class.zip", {"bomb.ipynb": b"0" * 5000, "ada.ipynb": b"1"})
    data = path.read_bytes()
    assert data.count((5000).to_bytes(4, "little")) == 2
    path.write_bytes(data.replace((5000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    taken = found(path, chapter)
    assert taken.pop("ada") == b"1"
    assert all(isinstance(problem, str) or len(problem or b"") <= 1000 for problem in taken.values()) and taken


def test_encrypted_zip_member(chapter: Chapter, tmp_path: Path) -> None:
    path = pack(tmp_path / "class.zip", {"ada.ipynb": b"1", "bob.ipynb": b"2"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x03\x04") + 6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    assert found(path, chapter)["bob"] == b"2"
    assert "cannot be unpacked" in str(found(path, chapter)[""])


def test_neither_folder_nor_zip_file(chapter: Chapter, tmp_path: Path) -> None:
    (tmp_path / "class.rar").write_bytes(b"Rar!")
    with pytest.raises(CollectError, match="neither a folder nor a zip file"):
        collect(tmp_path / "class.rar", chapter)
    (tmp_path / "cut.zip").write_bytes(pack(tmp_path / "class.zip", {"ada.ipynb": b"1"}).read_bytes()[:-10])
    with pytest.raises(CollectError, match="neither a folder nor a zip file"):
        collect(tmp_path / "cut.zip", chapter)
