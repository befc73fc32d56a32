"""The course itself, published once for all tests that look at what was built."""

import pytest

from autograder.layout import Course, here
from autograder.publish import publish


@pytest.fixture(scope="session")
def published() -> Course:
    """This checkout with everything built; quick when `make test` has just done so."""
    course = here()
    publish(course, print)
    return course
