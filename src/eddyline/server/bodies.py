"""The bodies of requests. Fields that are not known are refused: a mistake in a name must not pass in silence."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200)]
# Of a job. Only who has the token sends one.
JobText = Annotated[str, Field(max_length=1_000_000)]
# Of one query. Everybody may check one, and the parser works for 15 seconds on a megabyte of nested parentheses and for
# 50 on a sum of as many terms.
Text = Annotated[str, Field(max_length=50_000)]
Columns = list[tuple[str, str]]
Width = int | float | str | None


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StreamBody(Body):
    """A stream: with ``columns`` for rows that are pushed, or with a ``source``."""

    name: Name
    columns: Columns | None = Field(None, max_length=1000, description="pairs of name and type, such as bigint")
    source: str | None = Field(None, max_length=4000)
    timestamp: str | None = None
    slack: int | float | str = 0
    idle: Width = None
    overload: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class RelationBody(Body):
    """A relation: constant from a ``source``, or with ``timestamp`` one that changes."""

    name: Name
    columns: Columns | None = Field(None, max_length=1000)
    source: str | None = Field(None, max_length=4000)
    timestamp: str | None = None
    key: list[str] = Field(default_factory=list, max_length=100)
    sign: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class ViewBody(Body):
    name: Name
    text: Text


class QueryBody(Body):
    """A query; without ``name`` it is called as its text says, or gets one."""

    text: Text
    name: Name | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class TextBody(Body):
    text: Text


class JobBody(Body):
    text: JobText


class OptionsBody(Body):
    """Options to change; null sets one back to its default."""

    options: dict[str, Any]


class WidthsBody(Body):
    slack: Width = None
    idle: Width = None


class HeartbeatBody(Body):
    """``time`` in ticks (microseconds of a timestamp), or as ISO 8601."""

    time: int | str
