"""The entry of `.venv/bin/teller`."""

from tools.teller.command import app

app(prog_name="teller")
