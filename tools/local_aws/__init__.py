"""A local AWS for the demo, the tests and the benchmarks. The application doesn't depend on it."""
