"""The start of an application that uses a boto3 client."""

import boto3

client = boto3.client("dynamodb")
