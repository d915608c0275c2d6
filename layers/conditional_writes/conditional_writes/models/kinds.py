"""The codec of a model: the one that was given, or one that msgspec or pydantic makes for its class."""

import dataclasses
from typing import get_origin

from conditional_writes.core.items import copied
from conditional_writes.models.codecs import Codec, Fields, UnfitModel


def codec_of[Model](model: type[Model] | Codec[Model]) -> tuple[Codec[Model], Fields | None]:
    """The codec, and the class's fields; None if they aren't known, because the codec was given.

    Raises UnfitModel, and ImportError if msgspec isn't there for a dataclass.
    """
    if isinstance(model, Codec):
        # A model may be changed in place, and so must have no part in common with an item.
        return Codec(lambda value: copied(model.encode(value)), lambda item: model.decode(copied(item))), None
    if hasattr(model, "__pydantic_validator__"):
        from conditional_writes.models import pydantic_models  # noqa: PLC0415 - only if such a model is given

        return pydantic_models.codec_of(model)
    kind = get_origin(model) or model
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_config__")):
        try:
            from conditional_writes.models import msgspec_models  # noqa: PLC0415 - the same
        except ModuleNotFoundError as error:
            if error.name != "msgspec":
                raise
            raise ModuleNotFoundError(
                f'{kind.__name__}: a dataclass as a model needs msgspec: pip install "conditional-writes[msgspec]"',
                name="msgspec",
            ) from None
        return msgspec_models.codec_of(model)
    raise UnfitModel(
        f"{model!r} is no model: expected a dataclass, a Struct of msgspec's, a model of pydantic's (2 or later),"
        " or Codec(encode, decode)"
    )
