#!/bin/sh
# The operator's command, from any directory. `make setup` links .venv/bin/teller to it.
project=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
PYTHONPATH="$project" exec "$project/.venv/bin/python" -m tools.teller "$@"
