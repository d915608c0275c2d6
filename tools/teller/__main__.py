"""The entry of `.venv/bin/teller`."""

import signal
import sys

from tools.teller.command import app

if __name__ == "__main__":  # an export's processes import this module, too
    # A command gives letters back and removes its tail at its end, also if SIGTERM ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app(prog_name="teller")
