"""Run every chapter's notebook with the solutions: does it take what its page says? The last line is one JSON object.

python benchmarks/notebooks.py [CHAPTER ...]

A page says "All cells together run in about N seconds …, in X GiB of memory." Twice the time is more than that, and so
is one and a half times the memory. After a training it says "Expect `words` between a and b", for the number that a
cell prints behind these words. The exit status is 1 if any page is wrong.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import nbformat
from nbclient import NotebookClient

from autograder.layout import Chapter, here

COST = re.compile(r"All cells together run in about (\d+) seconds on two processor cores, in ([\d.]+) GiB of memory\.")
EXPECTED = re.compile(r"`([^`]+)` between (-?[\d.]+\d) and (-?[\d.]+\d)")


def run(chapter: Chapter) -> dict[str, object]:
    """Seconds, GiB and everything printed, of this process's only notebook."""
    notebook = nbformat.read(chapter.instructor_notebook, as_version=4)
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3")
    client.extra_arguments = ["--log-level=ERROR"]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        client.resources["metadata"] = {"path": folder}
        client.execute(env={**os.environ, "PYTHONPATH": str(here().root)})
    seconds = time.perf_counter() - began
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    gib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return {"seconds": round(seconds), "gib": round(gib, 2), "printed": printed}


def compare(chapter: Chapter, measured: dict) -> dict[str, object]:
    """What was measured beside what the page says."""
    page = chapter.source.read_text(encoding="utf-8")
    printed = " ".join(measured.pop("printed").split())
    result = {**measured, "as_stated": False}
    if cost := COST.search(page):
        result["stated"] = [int(cost[1]), float(cost[2])]
        result["as_stated"] = measured["seconds"] <= 2 * int(cost[1]) and measured["gib"] <= 1.5 * float(cost[2])
    for words, low, high in EXPECTED.findall(page):
        number = re.search(re.escape(words) + r" (-?\d+(\.\d+)?)", printed)
        result[words] = float(number[1]) if number else "not printed"
        result["as_stated"] &= number is not None and float(low) <= float(number[1]) <= float(high)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="by default all, one after the other")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chapters = [here().chapter(id) for id in options.chapters] or here().chapters
    if options.run:
        print(json.dumps(run(chapters[0])))
        return
    results = {}
    for chapter in chapters:
        command = [sys.executable, __file__, "--run", chapter.id]  # a process each, for the memory of each
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        results[chapter.id] = compare(chapter, json.loads(answer.splitlines()[-1]))
        print(chapter.id, results[chapter.id], file=sys.stderr, flush=True)
    as_stated = all(result["as_stated"] for result in results.values())
    print(json.dumps({"as_stated": as_stated, "chapters": results}))
    sys.exit(not as_stated)


if __name__ == "__main__":
    main()
