"""An AWS on this machine: for the demo, the tests and the benchmarks. The application knows nothing of it."""
