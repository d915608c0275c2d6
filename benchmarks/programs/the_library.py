"""The start of an application that uses the library alone."""

import conditional_writes

client = conditional_writes.dynamodb_client()
