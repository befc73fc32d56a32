"""nbgrader looks for its configuration here. The settings stand with the grader."""

load_subconfig("autograder/nbgrader_config.py")  # type: ignore[name-defined]  # noqa: F821
