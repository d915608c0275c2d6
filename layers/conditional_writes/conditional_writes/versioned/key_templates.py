"""Keys of one kind of items, in a table of several kinds: texts around values, as "CUSTOMER#{customer_id}"."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from string import Formatter
from typing import Any

from conditional_writes.core.items import Item
from conditional_writes.core.requests import Condition, begins_with, equals


class KeyTemplates:
    """The templates of a table's key. A part of the key that has none is a field itself.

    `fields` names the attributes whose values make a key, in the order of the key's names, each once.

    Raises ValueError for a template of what isn't in the key, and for one that doesn't keep the values apart.
    """

    def __init__(self, table: str, key_names: Sequence[str], templates: Mapping[str, str]) -> None:
        unknown = templates.keys() - set(key_names)
        if unknown:
            raise ValueError(f"{table}: a template for {min(unknown)}, which isn't in the key: {', '.join(key_names)}")
        self._templates = {name: _Template(f"{table} {name}", text) for name, text in templates.items()}
        for name, template in self._templates.items():
            made = sorted(self._templates.keys() & set(template.fields))
            if made:
                raise ValueError(f"{table} {name}: {made[0]} has a template, so it is no field: name it otherwise")
        self._key_names = key_names
        self.fields = tuple(dict.fromkeys(field for name in key_names for field in self._fields_of(name)))

    def _fields_of(self, name: str) -> Sequence[str]:
        return self._templates[name].fields if name in self._templates else (name,)

    def key_values(self, values: Mapping[str, Any]) -> list[Any]:
        """The values of the key, from those of the fields. Raises ValueError and TypeError for what makes no key."""
        return [
            self._templates[name].filled(values) if name in self._templates else values[name]
            for name in self._key_names
        ]

    def fit(self, item: Item) -> bool:
        """Whether the item is of this kind, by its key."""
        return all(
            isinstance(item[name], str) and template.pattern.fullmatch(item[name])
            for name, template in self._templates.items()
        )

    def beginning(self, values: Mapping[str, Any]) -> Condition:
        """The condition of a query: keys of this kind, with these values of the first fields."""
        partition, *sort = self._key_names
        missing = [field for field in self._fields_of(partition) if field not in values]
        if missing:
            raise ValueError(f"{partition}: a query is of one partition: expected {', '.join(missing)}, too")
        template = self._templates.get(partition)
        condition = equals(partition, template.filled(values) if template else values[partition])
        if not sort:
            return condition
        [name] = sort
        if all(field in values for field in self._fields_of(name)):
            return condition & equals(name, self.key_values(values)[1])
        start = self._templates[name].filled(values, whole=False) if name in self._templates else ""
        return condition & begins_with(name, start) if start else condition


_FORM = re.compile(r"\d*[bdoxX]")
"""A whole number in a width. In another form two values could have one text."""


class _Template:
    """A text with fields in braces. A value has none of the `separators`, so the text of a key is of one template."""

    def __init__(self, whose: str, text: str) -> None:
        self._whose, self._text = whose, text
        try:
            self._parts = [*Formatter().parse(text)]
        except ValueError as error:
            raise ValueError(f"{whose}: {text!r} is no template: {error}") from None
        self.fields = tuple(dict.fromkeys(field for _, field, _, _ in self._parts if field is not None))
        self.separators = {each for literal, *_ in self._parts for each in literal if not each.isalnum()}
        for number, (literal, field, form, conversion) in enumerate(self._parts):
            if field is None:
                continue
            if not field.isidentifier() or conversion:
                raise ValueError(f"{whose}: {text!r}: expected fields by name, as {{customer_id}}")
            if form and not _FORM.fullmatch(form):
                raise ValueError(f"{whose}: {text!r}: expected a form that keeps numbers apart, as {{{field}:06d}}")
            if number and self._parts[number - 1][1] is not None and self.separators.isdisjoint(literal):
                raise ValueError(f"{whose}: {text!r}: expected a sign as # between the fields")
        value = f"[^{re.escape(''.join(sorted(self.separators)))}]+" if self.separators else ".+"
        self.pattern = re.compile(
            "".join(re.escape(literal) + (value if field is not None else "") for literal, field, *_ in self._parts),
            re.DOTALL,
        )

    def filled(self, values: Mapping[str, Any], *, whole: bool = True) -> str:
        """The text with the values. If it needn't be whole, it ends before the first value that is missing."""
        text = ""
        for literal, field, form, _ in self._parts:
            text += literal
            if field is not None:
                if field not in values and not whole:
                    break
                text += self._value(field, values[field], form or "")
        return text

    def _value(self, field: str, value: Any, form: str) -> str:
        if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
            value = int(value)  # as it was before it was stored
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"{self._whose}: {field} is {value!r}, expected a text or a whole number")
        try:
            text = format(value, form)
        except ValueError as error:
            raise ValueError(f"{self._whose}: {field} is {value!r}, and {self._text!r} takes none: {error}") from None
        if not text or not self.separators.isdisjoint(text):
            why = f"has a {min(self.separators & {*text})!r}, which separates the parts" if text else "is empty"
            raise ValueError(f"{self._whose}: {field}, {text!r}, {why} of {self._text!r}")
        return text
