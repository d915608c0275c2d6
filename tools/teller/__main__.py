"""The entry of `.venv/bin/teller`."""

import signal
import sys

IS_HEEDED = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a process in the background ignores Ctrl-C
if IS_HEEDED:  # until all modules are imported there is nothing to tell
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tools.teller.command import app  # noqa: E402

if __name__ == "__main__":
    if IS_HEEDED:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A command gives letters back and removes its tail at its end, also if SIGTERM ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app(prog_name="teller")
