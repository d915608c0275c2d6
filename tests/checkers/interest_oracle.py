"""The oracle of interest: rational arithmetic, written from docs/messages.md. It imports nothing from the product."""

from datetime import datetime, timedelta
from fractions import Fraction
from math import floor
from typing import NamedTuple

YEAR, MICROSECOND = timedelta(days=365), timedelta(microseconds=1)


class Interest(NamedTuple):
    """An account's annual rate; the amounts that are due, and that have accrued since; and the time of all this."""

    rate: Fraction = Fraction(0)
    due: Fraction = Fraction(0)
    accrued: Fraction = Fraction(0)
    time: str | None = None

    def until(self, time: str | None, balance: Fraction, unit: Fraction) -> "Interest":
        """After this balance was there until an entry of this time. None: no time has passed."""
        if not (self.time and time):
            return self._replace(time=time)
        interest, begin, end = self, datetime.fromisoformat(self.time), datetime.fromisoformat(time)
        while begin < end:
            some_day_of_next = begin.replace(day=1) + timedelta(days=32)
            next_month = some_day_of_next.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            stop = min(end, next_month)
            years = Fraction((stop - begin) // MICROSECOND, YEAR // MICROSECOND)
            more = max(interest.due - balance, Fraction(0)) * interest.rate * years
            interest = interest._replace(accrued=interest.accrued + more)
            if stop == next_month:
                interest = interest.rounded(unit)
            begin = stop
        return interest._replace(time=time)

    def rounded(self, unit: Fraction) -> "Interest":
        """The whole units of what has accrued are due."""
        whole = floor(self.accrued / unit) * unit
        return self._replace(due=self.due + whole, accrued=self.accrued - whole)

    def is_settled(self, unit: Fraction) -> bool:
        return self.due == 0 and self.accrued < unit
