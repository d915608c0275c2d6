"""The operator's command `teller`: looks at a deployed stack and acts on it. A module a group of subcommands."""
