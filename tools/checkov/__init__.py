"""Checkov on template.yaml: `make check`."""
