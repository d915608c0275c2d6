"""The entry of `.venv/bin/teller`."""

import signal
import sys

from tools.teller.command import app

# What a command has received or made is given back at its end, also if it is ended from outside.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
app(prog_name="teller")
