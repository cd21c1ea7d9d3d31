"""Dates and timestamps in text, in all forms that Spark's CAST takes."""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DATE = r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_TIME = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{0,9}))?)?)?"
_ONLY_DATE = re.compile(_DATE + r"(?:[T ].*)?)?)?", re.DOTALL)
_ZONE = r"(?P<zone>Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?|[A-Z][A-Za-z_/]+)"
_DATE_TIME = re.compile(_DATE + rf"(?:[T ]{_TIME}\s*{_ZONE}?)?)?)?")


def parse_date(text: str) -> datetime.date | None:
    """None if the text is no date.

    >>> parse_date("2004-6-1"), parse_date("2004-06-01 12:00"), parse_date("2004-13-01")
    (datetime.date(2004, 6, 1), datetime.date(2004, 6, 1), None)
    """
    m = _ONLY_DATE.fullmatch(text)
    if m is None:
        return None
    try:
        return datetime.date(int(m["year"]), int(m["month"] or 1), int(m["day"] or 1))
    except ValueError:
        return None


def parse_timestamp(text: str) -> datetime.datetime | None:
    """The UTC time without a zone; digits after the microseconds are cut off. None if the text is no timestamp.

    >>> parse_timestamp("2004-06-01T12:00:00.5+02:00")
    datetime.datetime(2004, 6, 1, 10, 0, 0, 500000)
    """
    m = _DATE_TIME.fullmatch(text)
    if m is None:
        return None
    micros = int((m["fraction"] or "").ljust(6, "0")[:6])
    try:
        time = datetime.datetime(
            int(m["year"]),
            int(m["month"] or 1),
            int(m["day"] or 1),
            int(m["hour"] or 0),
            int(m["minute"] or 0),
            int(m["second"] or 0),
            micros,
        )
        zone = m["zone"]
        if zone in (None, "Z", "UTC", "GMT"):
            return time
        if zone[0] in "+-":
            hours, minutes = re.fullmatch(r"(\d{1,2}):?(\d{2})?", zone[1:]).groups()  # type: ignore[union-attr]
            offset = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
            return time - offset if zone[0] == "+" else time + offset
        return time.replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, ZoneInfoNotFoundError):
        return None
