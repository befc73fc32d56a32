"""The course itself, published once for all tests that look at what was built."""

import os
import subprocess
import warnings
from pathlib import Path

import pytest

from autograder.layout import Course, here
from autograder.publish import publish


@pytest.fixture(scope="session")
def published() -> Course:
    """This checkout with everything built; quick when `make test` has just done so."""
    course = here()
    publish(course, print)
    return course


@pytest.fixture(scope="session")
def jail() -> str:
    """The isolation to test with. Without bubblewrap there is nothing to test: an error in CI, else loudly skipped."""
    from autograder.sandbox.launch import BUBBLEWRAP, JailError, bubblewrap

    try:
        command = bubblewrap(Path("/usr"), {"PATH": "/usr/bin:/bin"})
        subprocess.run([*command, "true"], check=True, capture_output=True, text=True)
    except (JailError, subprocess.CalledProcessError) as error:
        reason = f"NO SANDBOX ON THIS MACHINE, nothing about it was tested: {getattr(error, 'stderr', '') or error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    return BUBBLEWRAP
