"""Imports the module named by the first argument, and prints the seconds and CPU seconds that this took."""

import time

started, started_cpu = time.perf_counter(), time.process_time()

import importlib  # noqa: E402 (part of what is measured)
import sys  # noqa: E402

importlib.import_module(sys.argv[1])
print(time.perf_counter() - started, time.process_time() - started_cpu)
