"""What several suites use: generated and sample messages, faults, the deployed application, a clock."""
