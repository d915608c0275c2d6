"""Texts with words of a producer's in them, for a person to read and for SQS to take."""


def printable(text: str) -> str:
    """Control characters and lone surrogates as escapes: SQS refuses a message that has one in an attribute."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
