from autograder.cli import app

app(prog_name="python -m autograder")
