"""Helpers of several suites: generated and sample messages, faults, the deployed application, a clock."""
