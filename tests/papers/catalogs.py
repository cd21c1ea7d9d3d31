"""The schemas that the papers' queries run against, and the queries themselves."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind

# Each stream also has the integer time ``ts``; a name in brackets is a constant relation, without time.
SCHEMAS: dict[str, dict[str, str]] = {
    "babu": {
        "C": "pid:long size:long",
        "B": "pid:long size:long",
        "O": "pid:long size:long",
        "S": "A:long B:long C:long",
        "S0": "A:long B:long",
        "S1": "A:long B:long",
        "S2": "A:long B:long C:long",
        "S3": "A:long B:long C:long D:long",
        "S4": "A:long B:long",
        "Packets": "destAddr:string data:string",
        "[T]": "prefix:string",
        "CarStr": "cid:long xpos:long sid:long",
    },
    "babu_filters": {f"S{i}": "A:long B:long" for i in range(4)},
    "babu_joins": {"R": "A:long", "S": "A:long B:long", "T": "B:long"},
    "amri": {f"Stream{n}": "A1:long A2:long A3:long A4:long" for n in "ABC"},
    "cbr": {
        "Packets": "destAddr:string data:string",
        "[T]": "prefix:string",
        "sensors": "sensorID:long light:double temperature:double humidity:double voltage:double",
        "S": "attrC:long fkd1:long fkd2:long",
        "[d1]": "pk:long",
        "[d2]": "pk:long",
    },
    "pulse": {
        "A": "x:double v:double",
        "B": "y:double v:double a:double",
        "R": "a:long b:long c:long x:double y:double",
        "S": "a:long b2:long d:long b:long",
    },
    "pulse_inversion": {"R": "a:long b:long", "S": "a:long d:long"},
    "pulse_stocks": {"stocks": "symbol:string price:double", "S": "symbol:string price:double"},
    "pulse_vessels": {"S": "id:long x:double y:double"},
}

TYPES = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}


@dataclass(frozen=True)
class PaperQuery:
    key: str
    source: str
    catalog: str
    printed: str
    repaired: str | None = None
    why: str | None = None
    expect: str | None = None

    @property
    def text(self) -> str:
        """What runs."""
        return self.repaired or self.printed


def paper_queries() -> list[PaperQuery]:
    path = Path(__file__).with_name("queries.toml")
    return [PaperQuery(key, **entry) for key, entry in tomllib.loads(path.read_text(encoding="utf-8")).items()]


def catalog(name: str) -> Catalog:
    """The catalog of a paper, without sources."""
    made = Catalog()
    for written, columns in SCHEMAS[name].items():
        fields = [Field(n, TYPES[t]) for n, t in (c.split(":") for c in columns.split())]
        if written.startswith("["):
            made.add("relations", RelationDef(written.strip("[]"), Schema(tuple(fields))))
        else:
            schema = Schema((*fields, Field("ts", pa.int64())))
            made.add("streams", StreamDef(written, schema, TimeKind.INTEGER, "ts"))
    return made
