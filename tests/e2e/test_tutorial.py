"""docs/tutorial.md on the deployed stack: its programs and commands as they are, and what it says that they show."""

import os
import re
import subprocess
from pathlib import Path

from tests.support.deployed import Bank, until
from tools.local_aws.server import PROJECT

BLOCKS = re.compile(r"^```(python|console|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LISTENING, SET_UP = "python hear.py", ("make", "export", "mkdir", "cd")
"""The command of the second terminal; and those for which a test has its own stack, path and directory."""


def test_the_tutorials_programs_do_what_it_says(bank: Bank, tmp_path: Path) -> None:
    blocks = BLOCKS.findall((PROJECT / "docs" / "tutorial.md").read_text())
    for program in (text for kind, text in blocks if kind == "python"):
        (tmp_path / program.split()[1]).write_text(program)
    path = f"{PROJECT / '.venv' / 'bin'}:{os.environ['PATH']}"
    variables = os.environ | bank.stack.endpoint.environment | {"TELLER_STACK": bank.stack.name, "PATH": path}
    heard = tmp_path / "heard"
    with heard.open("w") as second_terminal:
        listening = subprocess.Popen(LISTENING.split(), cwd=tmp_path, env=variables, stdout=second_terminal)
    try:
        until(heard.read_text, "it listens", seconds=30)
        for text in (text for kind, text in blocks if kind != "python"):
            for command, answer in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                if not command.startswith((*SET_UP, LISTENING)):
                    done = subprocess.run(
                        command, shell=True, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
                    )
                    assert not answer or done.stdout == answer
            if not text.startswith("$ "):
                until(lambda text=text: {*text.splitlines()} <= {*heard.read_text().splitlines()}, text, seconds=60)
    finally:
        listening.kill()
        listening.wait()
    assert [letter.body for letter in bank.transactions.take_dead_letters() if "order-3" in letter.body]
