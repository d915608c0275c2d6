"""The calls that the engine answers, by the names that requests give them."""

from collections.abc import Callable
from typing import Any

from conditional_writes.testing import control, reads, streams, transactions, writes
from conditional_writes.testing.database import Answer, Database

OPERATIONS: dict[str, Callable[[Database, dict[str, Any]], Answer]] = {
    "DynamoDB_20120810.BatchGetItem": reads.batch_get_item,
    "DynamoDB_20120810.BatchWriteItem": writes.batch_write_item,
    "DynamoDB_20120810.CreateTable": control.create_table,
    "DynamoDB_20120810.DeleteItem": writes.delete_item,
    "DynamoDB_20120810.DeleteTable": control.delete_table,
    "DynamoDB_20120810.DescribeTable": control.describe_table,
    "DynamoDB_20120810.DescribeTimeToLive": control.describe_time_to_live,
    "DynamoDB_20120810.GetItem": reads.get_item,
    "DynamoDB_20120810.ListTables": control.list_tables,
    "DynamoDB_20120810.PutItem": writes.put_item,
    "DynamoDB_20120810.Query": reads.query,
    "DynamoDB_20120810.Scan": reads.scan,
    "DynamoDB_20120810.TransactGetItems": transactions.transact_get_items,
    "DynamoDB_20120810.TransactWriteItems": transactions.transact_write_items,
    "DynamoDB_20120810.UpdateItem": writes.update_item,
    "DynamoDB_20120810.UpdateTable": control.update_table,
    "DynamoDB_20120810.UpdateTimeToLive": control.update_time_to_live,
    "DynamoDBStreams_20120810.DescribeStream": streams.describe_stream,
    "DynamoDBStreams_20120810.GetRecords": streams.get_records,
    "DynamoDBStreams_20120810.GetShardIterator": streams.get_shard_iterator,
    "DynamoDBStreams_20120810.ListStreams": streams.list_streams,
}
