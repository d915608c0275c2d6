"""The minimum of a function on DynamoDB: one client, made with botocore alone."""

import botocore.session

client = botocore.session.get_session().create_client("dynamodb")
