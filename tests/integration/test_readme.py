"""The README's example of the library is run as it stands there."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

from conditional_writes import Deadline
from tests.local_aws.server import PROJECT, Endpoint


def test_the_readmes_example_never_books_a_flight_over(dynamodb: Endpoint) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)
    client = dynamodb.client("dynamodb")
    client.create_table(
        TableName="Flights",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "flight_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "flight_id", "KeyType": "HASH"}],
    )
    flight = {"flight_id": {"S": "TL1"}, "seats": {"N": "20"}, "passengers": {"L": []}, "version": {"N": "1"}}
    client.put_item(TableName="Flights", Item=flight)
    names: dict[str, Any] = {}
    with mock.patch.dict(os.environ, dynamodb.environment):
        exec(example, names)
    with ThreadPoolExecutor(8) as pool:
        reserved = list(
            pool.map(lambda number: names["reserve_seat"]("TL1", f"p-{number}", Deadline.after(30)), range(30))
        )
    assert sum(reserved) == 20
    booked = client.get_item(TableName="Flights", Key={"flight_id": {"S": "TL1"}})["Item"]
    assert len({passenger["S"] for passenger in booked["passengers"]["L"]}) == 20
    assert booked["version"]["N"] == "21"
