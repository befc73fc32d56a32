"""`make` on a machine where something is missing says what, and what to do."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from autograder import environment


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own whose requirements are installed in no time: there are none."""
    (tmp_path / "requirements.txt").write_text("")
    for name, value in {
        "ROOT": tmp_path,
        "VENV": tmp_path / ".venv",
        "STAMP": tmp_path / ".venv" / "installed",
    }.items():
        monkeypatch.setattr(environment, name, str(value))
    monkeypatch.setattr(environment, "PYTHON", str(tmp_path / ".venv" / "bin" / "python"))
    return tmp_path


def stopped(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        environment.main()
    assert stop.value.code == 1
    return capsys.readouterr().err


def test_an_old_python_is_named(checkout, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert "Python 3.11 or newer is needed" in stopped(capsys)


def test_a_python_without_venv_is_named(checkout, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    assert "apt install python3-venv" in stopped(capsys)


def test_a_full_disk_is_named(checkout, monkeypatch, capsys) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12, 10**8))
    assert "0.1 GB are free" in stopped(capsys)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("error: command 'gcc' failed: No such file or directory", "there is no compiler"),
        ("ERROR: something never seen before", "pip could not install"),
    ],
)
def test_a_failed_installation_is_explained(tmp_path, capsys, line: str, words: str) -> None:
    (tmp_path / "log").write_text(line)
    with pytest.raises(SystemExit):
        environment.explain(str(tmp_path / "log"))
    assert words in capsys.readouterr().err


def test_a_half_made_environment_is_repaired(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").write_text("not a program")
    environment.main()
    assert (checkout / ".venv" / "installed").is_file()
    assert (
        subprocess.run([environment.PYTHON, "-m", "pip", "--version"], check=False, capture_output=True).returncode == 0
    )


def test_an_unchanged_environment_is_left_alone(checkout: Path, monkeypatch) -> None:
    environment.main()
    monkeypatch.setattr(venv, "create", lambda *_, **__: pytest.fail("made again"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("pip was called again"))
    environment.main()


def test_the_lock_pins_everything_and_names_no_place() -> None:
    lines = (Path(__file__).parent.parent / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) > 50
    for line in pins:
        requirement = line.split("#")[0].strip()
        assert "==" in requirement, f"not pinned: {line}"
        assert not any(sign in requirement for sign in ("@", "/", "+")), f"names a place or a local build: {line}"
