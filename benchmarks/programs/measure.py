"""Imports the module that the first argument names, and prints what it took: seconds, and seconds of CPU."""

import time

started, started_cpu = time.perf_counter(), time.process_time()

import importlib  # noqa: E402 (part of what is measured)
import sys  # noqa: E402

importlib.import_module(sys.argv[1])
print(time.perf_counter() - started, time.process_time() - started_cpu)
