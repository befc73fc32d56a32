"""What an instructor runs: publish the course, grade a class, read the report."""

import os
import sys
from pathlib import Path

# nbgrader calls alembic by name, which lies beside this Python and not always on the path.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
