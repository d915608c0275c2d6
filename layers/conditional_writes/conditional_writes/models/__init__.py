"""Tables whose items are models: dataclasses, msgspec structs, pydantic models, or any class with a codec."""

from conditional_writes.models.codecs import Codec, UnfitModel
from conditional_writes.models.table import Loaded, Misfit, ModelTable, one_of

__all__ = ["Codec", "Loaded", "Misfit", "ModelTable", "UnfitModel", "one_of"]
