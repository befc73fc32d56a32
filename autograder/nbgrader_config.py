"""nbgrader's settings: sources in `solutions/`, releases in `chapters/`, everything of a class in `autograder/`."""

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821
root = Path(__file__).resolve().parent.parent

c.CourseDirectory.root = str(root)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "chapters"
c.CourseDirectory.submitted_directory = "autograder/submitted"
c.CourseDirectory.autograded_directory = "autograder/autograded"
c.CourseDirectory.feedback_directory = "autograder/feedback"
c.CourseDirectory.db_url = f"sqlite:///{root / 'autograder' / 'gradebook.db'}"
# Without this, nbgrader would copy the sources, the quiz keys and the misconceptions into the release.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.pyc", "*.md", "*.yml", "*.py"]
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("Replace this line by your code.")'}
c.ExecutePreprocessor.timeout = 60
c.NbGrader.logfile = ""
