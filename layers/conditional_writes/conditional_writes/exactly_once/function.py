"""Functions that run exactly once per key, however often they are called.

A function plans its writes, and they commit in one transaction with the record of its result. So they are both there,
or neither is, whenever the process dies: docs/decisions/exactly-once-functions.md.
"""

import copy
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from conditional_writes.core.items import MAXIMUM_ITEM_BYTES, Item, Key, copied, item_bytes
from conditional_writes.core.loop import Observed, Plan, UnsatisfiableCondition, checked, write
from conditional_writes.core.own_attributes import WRITE_ID_BYTES
from conditional_writes.core.requests import MAXIMUM_WRITES, Check, Put
from conditional_writes.core.steps import Deadline, Steps, blocking, deadline_or_default, steps
from conditional_writes.core.unconditional import read
from conditional_writes.exactly_once.outbox import MESSAGES, text_of
from conditional_writes.exactly_once.record import (
    DEFAULT_EXPIRY,
    Call,
    PlainRecording,
    Recorded,
    Recording,
    Records,
    free,
)

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig

type Recordable = str | bytes | bool | Decimal | Mapping[str, Any] | list[Any] | set[Any] | None
"""A result as a record of plain functions has it. An int would come back as a Decimal."""


type Json = str | int | float | bool | Mapping[str, Any] | list[Any] | None
"""A result as a record of Powertools has it. A Decimal would come back as a text."""


class Ran[Result](NamedTuple):
    """`result` is the recorded one. `replayed`: an earlier call made it, and this one wrote nothing."""

    result: Result
    replayed: bool


class _Failed(NamedTuple):
    """The function's own exception, or the condition that can't be met: nothing was written."""

    error: Exception


class ExactlyOnce[Request, Result]:
    """A function that `exactly_once` decorates: `pay(payment)`. `plan` is the function itself.

    Each call takes a deadline, by default ten seconds from now. Each may raise PayloadChanged, DeadlinePassed,
    OutcomeUnknown, UnsatisfiableCondition, botocore's own errors, what the function raises, and TypeError or ValueError
    for a key, a payload, a plan or a result that can't be. After each of them the call may be made again. Only after
    OutcomeUnknown and botocore's errors may the request have been done: the next call tells.
    """

    def __init__(
        self,
        function: Callable[[Request, Observed], Plan[Result]],
        name: str,
        records: Records,
        recording: Recording,
        items: Callable[[Request], Iterable[Key]] | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.plan, self._name = function, name
        self._records, self._recording, self._items = records, recording, items
        # FastAPI, typer and pytest call a function by its signature. That of the function itself has the items.
        first = next(iter(inspect.signature(function).parameters.values()))
        call = inspect.signature(type(self).__call__).parameters
        self.__signature__ = inspect.Signature([first.replace(name="request"), call["deadline"]])

    def __repr__(self) -> str:
        return f"<exactly once: {self._name}>"

    def __reduce__(self) -> str:
        """By its name, as a function: multiprocessing sends it to other processes."""
        name: str = vars(self).get("__qualname__", self._name)
        return name

    def __call__(self, request: Request, *, deadline: Deadline | None = None) -> Result:
        """The result of the request, which was done now or before.

        With `items` a call costs a read and a transaction, and a repetition the read alone. Without `items` each costs
        a transaction, which is refused if the call is a repetition.
        """
        return self.run(request, deadline=deadline).result

    @blocking
    def run(self, request: Request, *, deadline: Deadline | None = None) -> Steps[Ran[Result]]:
        """As a call, and says whether the result is an earlier call's."""
        deadline = deadline_or_default(deadline)
        call = self._recording.begin(copy.deepcopy(request))
        record_key = self._records.key(call.record_id)

        def plan(observed: Observed) -> Plan[Ran[Result] | _Failed]:
            recorded = call.recorded_in(observed.get(record_key))
            if recorded is not None:
                return Plan(Ran(recorded.result, replayed=True))
            try:
                planned = self._planned(request, {key: copied(observed[key]) for key in observed if key != record_key})
            except Exception as error:  # noqa: BLE001 (it is raised, unless the result is recorded by now)
                return Plan(_Failed(error))
            result, record = call.record_of(planned.result)
            if planned.messages:
                record = {**record, MESSAGES: text_of(self._name, planned.messages)}
            _check_size(record_key, record)
            return Plan(Ran(result, replayed=False), [Put(record_key, record, free()), *planned.writes])

        keys = self._keys_of(request)
        client = self._records.client
        observed = (yield from steps(read)(client, [record_key, *keys], deadline)) if keys else {}
        ran: Ran[Result] | _Failed
        try:
            ran = (yield from steps(write)(client, plan, observed, deadline)).result
        except UnsatisfiableCondition as error:
            ran = _Failed(error)
        if isinstance(ran, _Failed):
            return (yield from self._recorded_or_raise(call, ran.error, deadline))
        return ran

    def _keys_of(self, request: Request) -> list[Key]:
        keys = self._items(copy.deepcopy(request)) if self._items else []
        if isinstance(keys, Key):
            raise TypeError(f"{self._name}: `items` returned one key, expected a list: put {keys} into one")
        if not isinstance(keys, Iterable):
            raise TypeError(f"{self._name}: `items` returned {keys!r}, expected a list of keys")
        keys = list(keys)
        for key in keys:
            if not isinstance(key, Key):
                raise TypeError(f"{self._name}: `items` returned {key!r} among its keys: make each with `key`")
        return keys

    def _planned(self, request: Request, observed: Observed) -> Plan[Result]:
        """The function's plan. It gets a copy of the request: it may be called again, and must be given the same."""
        planned = self.plan(copy.deepcopy(request), observed)
        try:
            checked(planned)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        if len(planned.writes) >= MAXIMUM_WRITES:
            raise ValueError(
                f"{self._name}: {len(planned.writes)} writes and the record: a transaction of DynamoDB's takes"
                f" {MAXIMUM_WRITES}, so a function may have {MAXIMUM_WRITES - 1}"
            )
        return planned

    def _recorded_or_raise(self, call: Call, error: Exception, deadline: Deadline) -> Steps[Ran[Result]]:
        """The recorded result, if there is a record by now. Otherwise raises the error.

        Items are read one after another. If another call for the same request commits meanwhile, this one may have seen
        that call's items without its record: an account that is empty because the payment was made. If the check itself
        fails, nobody knows, and its error is raised, from the function's.
        """
        record_key = self._records.key(call.record_id)

        def plan(observed: Observed) -> Plan[Recorded | None]:
            if record_key not in observed:
                return Plan(None, [Check(record_key, free())])
            return Plan(call.recorded_in(observed[record_key]))

        try:
            recorded = (yield from steps(write)(self._records.client, plan, {}, deadline)).result
        except Exception as unchecked:
            raise unchecked from error
        if recorded is None:
            raise error
        return Ran(recorded.result, replayed=True)


class _Decorator(Protocol):
    def __call__[Request, RecordableResult: Recordable](
        self, function: Callable[[Request, Observed], Plan[RecordableResult]], /
    ) -> ExactlyOnce[Request, RecordableResult]: ...


class _ConfiguredDecorator(Protocol):
    def __call__[Request, JsonResult: Json](
        self, function: Callable[[Request, Observed], Plan[JsonResult]], /
    ) -> ExactlyOnce[Request, JsonResult]: ...


@overload
def exactly_once(
    records: Records,
    *,
    key: Callable[[Any], str],
    items: Callable[[Any], Iterable[Key]] | None = None,
    payload: Callable[[Any], Any] | None = None,
    expires_after: timedelta = DEFAULT_EXPIRY,
    prefix: str | None = None,
) -> _Decorator: ...


@overload
def exactly_once(
    records: Records,
    *,
    config: "IdempotencyConfig",
    items: Callable[[Any], Iterable[Key]] | None = None,
    prefix: str | None = None,
) -> _ConfiguredDecorator: ...


def exactly_once(  # noqa: PLR0913 (by name, all but the first)
    records: Records,
    *,
    key: Callable[[Any], str] | None = None,
    config: "IdempotencyConfig | None" = None,
    items: Callable[[Any], Iterable[Key]] | None = None,
    payload: Callable[[Any], Any] | None = None,
    expires_after: timedelta = DEFAULT_EXPIRY,
    prefix: str | None = None,
) -> Any:
    """Makes a function of a request and its items, which returns a plan, run exactly once per key.

    `key` has the request's key, a text. `items` has the keys of the items that the function is to see; they are read in
    one request with the record. `payload` has what must be the same in each call with the key, by default the whole
    request. After `expires_after` the key is forgotten. Keys are the function's own: `prefix` names it, by default by
    its module and its qualified name, and in Lambda by the name of the Lambda function before these.

    With Powertools' `config` instead of `key`, `payload` and `expires_after`, keys and records are those of stock
    Powertools for the same function.

    The function must be pure: it is called again after each conflict with another writer, with the newer items. If it
    raises an error, nothing is written, and nothing recorded.
    """
    if (key is None) == (config is None):
        raise TypeError("exactly_once: expected a `key`, or Powertools' `config`: one of the two")
    if not isinstance(records, Records):
        raise TypeError(f"exactly_once: {records!r}, expected Records(client, table)")
    for parameter, function in {"key": key, "items": items, "payload": payload}.items():
        if not (function is None or callable(function)):
            raise TypeError(f"exactly_once: {parameter}: {function!r}, expected a function of the request")
    if config is not None and (payload is not None or expires_after != DEFAULT_EXPIRY):
        raise TypeError("exactly_once: Powertools' `config` says the payload and the expiry: leave these two out")

    def decorate(function: Callable[[Any, Observed], Plan[Any]], /) -> ExactlyOnce[Any, Any]:
        name = prefix or _name_of(function)
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{name}: is a coroutine function, and only plans writes: make it a plain one")
        try:
            inspect.signature(function).bind("request", "observed")
        except TypeError as error:
            raise TypeError(f"{name}: {error}: expected a function of a request and its items, and no method") from None
        recording: Recording
        if config is not None:
            # Powertools is imported here, because most functions start without it.
            from conditional_writes.exactly_once.powertools import PowertoolsRecording  # noqa: PLC0415

            recording = PowertoolsRecording(records, function, config, prefix)
        else:
            assert key is not None
            recording = PlainRecording(records, name, key, payload or _whole, expires_after)
        return ExactlyOnce(function, name, records, recording, items)

    return decorate


def _check_size(record_key: Key, record: Item) -> None:
    size = item_bytes(record) + WRITE_ID_BYTES
    if size > MAXIMUM_ITEM_BYTES:
        raise ValueError(
            f"{record_key}: the record with its result and messages has {size:,} bytes, and an item has room for"
            f" {MAXIMUM_ITEM_BYTES:,}: write what is large into an item of its own, and return its key"
        )


def _whole(request: Any) -> Any:
    return request


def _name_of(function: Callable[..., Any]) -> str:
    """In Lambda it begins with the Lambda function's name, as Powertools' does: many functions are `app.handler`.

    A process that multiprocessing spawns has the module that is run under another name. The function gets its first
    one again, because keys of Powertools are made of it, too.
    """
    if inspect.isfunction(function) and function.__module__ == "__mp_main__":
        function.__module__ = "__main__"
    name = f"{function.__module__}.{getattr(function, '__qualname__', '<no name>')}"
    if "<" in name:
        raise TypeError(f"{name}: others may have this name, and it would begin their keys, too: give it a `prefix`")
    lambda_function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    return f"{lambda_function}.{name}" if lambda_function else name
