"""Installs pinned requirements into the environment of the Python that runs this, and counts the packages meanwhile.

`make setup` runs it before any package is there, so it uses Python's own library alone.
"""

import re
import subprocess
import sys
from pathlib import Path

PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--require-virtualenv", "--progress-bar=off")


def main(requirements: str) -> int:
    pins = len(re.findall(r"^\S+==", Path(requirements).read_text(), re.MULTILINE))
    collected = 0
    with subprocess.Popen([sys.executable, *PIP, "-r", requirements], stdout=subprocess.PIPE, text=True) as pip:
        for line in pip.stdout or ():
            collected += line.startswith("Collecting ")
            if line.startswith("Installing "):
                show(f"installing {collected} packages")
            elif line.startswith("Collecting "):
                show(f"{collected} of at most {pins} packages")
    show("")
    return pip.returncode


def show(progress: str) -> None:
    """Replaces the line on a terminal, which two environments may share. A log of `make` gets none of it."""
    if sys.stdout.isatty():
        print(f"\r\033[K{progress and f'{Path(sys.prefix).name}: {progress}'}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
