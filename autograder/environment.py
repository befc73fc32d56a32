"""Make or repair `.venv` with exactly what requirements.txt pins.

Run by make, with the system's Python, before anything is installed: standard library only.
"""

import hashlib
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "installed")
NEEDED_GB, COMFORTABLE_GB = 3, 10
SPACE = "Free some space and run make again."
COMPILER = "On Debian or Ubuntu: apt install build-essential python3-dev"


def main():
    if sys.version_info < (3, 11):
        stop(
            "Python 3.11 or newer is needed; this is %s." % sys.version.split()[0],
            "Then: make PYTHON=python3.12 course",
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        stop("This Python cannot make virtual environments.", "On Debian or Ubuntu: apt install python3-venv")
    with open(os.path.join(ROOT, "requirements.txt"), "rb") as file:
        wanted = hashlib.sha256(file.read() + sys.version.encode() + ROOT.encode()).hexdigest()
    if os.path.exists(STAMP) and os.access(PYTHON, os.X_OK):
        with open(STAMP) as file:
            if file.read() == wanted:
                return
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB:
        stop("Only %.1f GB are free here; at least %d are needed." % (free, NEEDED_GB), SPACE)
    if free < COMFORTABLE_GB:
        print("note: %.1f GB are free; PyTorch with CUDA needs %d." % (free, COMFORTABLE_GB))
    if os.path.exists(STAMP):
        os.remove(STAMP)
    print("setting up .venv (once; the first time this downloads PyTorch and takes some minutes)", flush=True)
    if not works([PYTHON, "-m", "pip", "--version"]):
        shutil.rmtree(VENV, ignore_errors=True)
        if subprocess.call([sys.executable, "-m", "venv", VENV]):
            stop("The virtual environment .venv could not be made.", "On Debian or Ubuntu: apt install python3-venv")
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "-r", os.path.join(ROOT, "requirements.txt")]
    log = os.path.join(VENV, "pip.log")
    with open(log, "w") as file:
        process = subprocess.Popen(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for line in process.stdout:
                file.write(line)
                if line.startswith(("Collecting ", "Installing ", "  Downloading ")):
                    print("  " + line.strip()[:100], flush=True)
        except KeyboardInterrupt:
            process.wait()
            stop("Interrupted.", "Run make again: it goes on where it stopped.")
    if process.wait():
        explain(log)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.check_output([PYTHON, "-c", where], text=True).strip()
    with open(os.path.join(site, "transformer_course.pth"), "w") as file:
        file.write(ROOT + "\n")  # notebooks import course and mytransformer from the checkout
    with open(STAMP, "w") as file:
        file.write(wanted)


def works(command):
    try:
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def explain(log):
    """Stop with the likeliest reason for a failed installation, in words."""
    with open(log) as file:
        text = file.read()
    reasons = (
        ("No space left on device", "The disk is full.", SPACE),
        ("error: command '", "A package has to be compiled, and there is no compiler.", COMPILER),
        ("Failed building wheel", "A package has to be compiled, and that failed.", COMPILER),
        ("name resolution", "The package index cannot be reached.", "Check the network, then run make again."),
        ("No matching distribution", "A pinned package was not found.", "Is this Python newer than 3.13?"),
    )
    for sign, reason, advice in reasons:
        if sign in text:
            stop(reason, advice + " The whole log: .venv/pip.log")
    print("\n".join(text.splitlines()[-15:]))
    stop("pip could not install requirements.txt.", "The whole log: .venv/pip.log")


def stop(reason, advice):
    print("\n%s\n%s" % (reason, advice), file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
