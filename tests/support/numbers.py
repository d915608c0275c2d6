"""Numbers that DynamoDB can store, for properties of the library and of the ledger."""

from decimal import Decimal

from hypothesis import strategies as st

from conditional_writes import EXACT


@st.composite
def exact_numbers(draw: st.DrawFn) -> Decimal:
    """Any number except zero that DynamoDB can store, in any spelling, such as 1.000 and 10E+2."""
    digits = draw(st.integers(1, EXACT.prec))
    coefficient = draw(st.integers(1, 10**digits - 1))
    exponent = draw(st.integers(EXACT.Emin, EXACT.Emax - len(str(coefficient)) + 1))
    return Decimal((draw(st.integers(0, 1)), tuple(map(int, str(coefficient))), exponent))
