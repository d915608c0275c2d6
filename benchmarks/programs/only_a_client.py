"""The least that a function on DynamoDB starts with: one client, from botocore itself."""

import botocore.session

client = botocore.session.get_session().create_client("dynamodb")
