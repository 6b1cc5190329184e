"""Writes `src/klamm/protocol/schema/` from the message definitions inside Apache Kafka's jars.

Usage: python tools/generate_schema.py JAR_OR_DIRECTORY...

The definitions are JSON files inside the jars of kafka-clients, kafka-group-coordinator, kafka-transaction-coordinator,
kafka-share-coordinator, kafka-metadata and kafka-storage. Maven fetches them, for example:

    for artifact in kafka-clients kafka-group-coordinator kafka-transaction-coordinator \\
                    kafka-share-coordinator kafka-metadata kafka-storage; do
      mvn -q dependency:copy -Dartifact=org.apache.kafka:$artifact:4.3.0 -DoutputDirectory=build/kafka-jars
    done
    make schema KAFKA_JARS=build/kafka-jars

The script copies facts: names, types, versions, tags, defaults, nullable, ignorable and flexible versions, common
structs. It does not copy prose. It leaves out versions that Kafka calls unstable, with the fields that only they have.
OWN_FIELDS holds klamm's additions.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARTIFACTS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-metadata",
    "kafka-storage",
)
DEFINITION = re.compile(r"^(?:common/)?(?:message|metadata)/\w+\.json$")
JAR = re.compile(r"^(?P<artifact>.+?)-(?P<version>\d+\.\d+\.\d+(-rc\d+|-SNAPSHOT)?)\.jar$")
OPEN_END = 32767
SCHEMA = Path(__file__).resolve().parent.parent / "src" / "klamm" / "protocol" / "schema"
INTEGERS = {"int8", "int16", "int32", "int64", "uint16", "uint32"}
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "string16": "str",
    "bytes": "bytes",
    "records": "bytes | memoryview",
    "uuid": "bytes",
}

Json = dict[str, Any]
Range = tuple[int, int]

# Additional fields that klamm's broker sends to klamm's own tools: tagged fields, which other clients skip (KIP-482),
# with tags far above Kafka's. The broker sends them only to clients that call themselves klamm.
OWN_FIELDS: dict[tuple[str, str], list[Json]] = {
    (message, "DescribedGroup"): [
        {
            "name": "MembersNeeded",
            "type": "int32",
            "versions": flexible_versions,
            "taggedVersions": flexible_versions,
            "tag": 27500,
            "default": "-1",
            "ignorable": True,
        },
        {
            "name": "ChangeCauses",
            "type": "[]string",
            "versions": flexible_versions,
            "nullableVersions": flexible_versions,
            "taggedVersions": flexible_versions,
            "tag": 27502,
            "default": "null",
            "ignorable": True,
        },
        {
            "name": "ChangingSinceMs",
            "type": "int64",
            "versions": flexible_versions,
            "taggedVersions": flexible_versions,
            "tag": 27503,
            "default": "-1",
            "ignorable": True,
        },
    ]
    for message, flexible_versions in (("ConsumerGroupDescribeResponse", "0+"), ("DescribeGroupsResponse", "5+"))
}
OWN_FIELDS["DescribeGroupsResponse", "DescribedGroup"].insert(
    1,  # in the order of their tags
    {
        "name": "AwaitedMembers",
        "type": "[]string",
        "versions": "5+",
        "nullableVersions": "5+",
        "taggedVersions": "5+",
        "tag": 27501,
        "default": "null",
        "ignorable": True,
    },
)


def snake_case(name: str) -> str:
    """Returns the name in snake case: `KRaftVersion` → `k_raft_version`. Appends an underscore to a Python keyword."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()
    return f"{words}_" if keyword.iskeyword(words) else words


def parse_versions(text: str | None) -> Range | None:
    """Parses a range of versions: `3+`, `0-4`, `2` or `none`."""
    if text is None or text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), OPEN_END
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def intersect(left: Range | None, right: Range | None) -> Range | None:
    if left is None or right is None:
        return None
    low, high = max(left[0], right[0]), min(left[1], right[1])
    return (low, high) if low <= high else None


def find_jars(arguments: list[str]) -> list[Path]:
    """Returns one jar for each artifact, from the given jars and directories (searched recursively)."""
    found: dict[str, Path] = {}
    for argument in arguments:
        path = Path(argument)
        for jar in sorted(path.rglob("*.jar")) if path.is_dir() else [path]:
            match = JAR.match(jar.name)
            if match and match["artifact"] in ARTIFACTS:
                found[match["artifact"]] = jar
    missing = [artifact for artifact in ARTIFACTS if artifact not in found]
    if missing:
        sys.exit(f"no jar found for {', '.join(missing)}; the top of {Path(__file__).name} says how to get them")
    return [found[artifact] for artifact in ARTIFACTS]


def read_definitions(jar: Path) -> Iterator[Json]:
    """Yields the message definitions of one jar, without messages that have no valid version any more."""
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if DEFINITION.match(name):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition: Json = json.loads(text)
                if parse_versions(definition["validVersions"]) is not None:
                    yield definition


class Struct:
    """One class to be written: a message, or a struct inside one."""

    def __init__(self, name: str, fields: list[Json], versions: Range) -> None:
        self.name = name
        self.fields = [Field(field) for field in fields if intersect(field_versions(field), versions)]


class Field:
    """One attribute to be written."""

    def __init__(self, definition: Json) -> None:
        self.name = snake_case(definition["name"])
        self.type: str = definition["type"]
        if definition.get("flexibleVersions") == "none":
            self.type = {"string": "string16"}[self.type]
        self.element = self.type.removeprefix("[]")
        self.is_array = self.type.startswith("[]")
        self.is_struct = self.element[0].isupper()
        self.versions = field_versions(definition)
        self.nullable = parse_versions(definition.get("nullableVersions"))
        self.tag: int | None = definition.get("tag")
        self.tagged = parse_versions(definition.get("taggedVersions"))
        self.ignorable: bool = definition.get("ignorable", False)
        self.default = self._default(definition)

    def _default(self, definition: Json) -> object:
        # Defaults are JSON strings, numbers and booleans, which all mean their text. A JSON null is no default for
        # Kafka's generator (Jackson makes it Java's null), so only the text "null" means null.
        text = definition.get("default")
        text = "" if text is None else text
        if self.type == "records" or text == "null":
            return None
        if self.is_array or self.is_struct:
            return ()
        if self.type in INTEGERS:
            return int(str(text), 0) if text != "" else 0
        if self.type == "float64":
            return float(text or 0)
        if self.type == "bool":
            return str(text).lower() == "true"
        return {"bytes": b"", "uuid": bytes(16)}.get(self.type, text)

    @property
    def annotation(self) -> str:
        element = self.element if self.is_struct else PYTHON_TYPES.get(self.element, "int")
        whole = f"list[{element}]" if self.is_array else element
        return f"{whole} | None" if self.nullable or self.default is None else whole

    @property
    def argument(self) -> str:
        default = "NEW" if self.default == () else literal(self.default)
        return f"{self.name}: {self.annotation} = {default},"

    @property
    def assignment(self) -> str:
        if self.default == ():
            fresh = "[]" if self.is_array else f"{self.element}()"
            return f"self.{self.name} = {fresh} if {self.name} is NEW else {self.name}"
        return f"self.{self.name} = {self.name}"

    @property
    def row(self) -> str:
        facts = (
            self.name,
            self.type,
            self.versions,
            self.nullable,
            self.tag,
            self.tagged,
            self.default,
            self.ignorable,
        )
        return f"{literal(facts)},"


def literal(value: object) -> str:
    """Returns `repr` with double quotes, and `ZERO_UUID` for sixteen zero bytes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if value == bytes(16):
        return "ZERO_UUID"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def field_versions(definition: Json) -> Range:
    versions = parse_versions(definition.get("versions", definition.get("taggedVersions")))
    if versions is None:
        sys.exit(f"field {definition['name']} has no versions")
    return versions


def collect_structs(definition: Json, versions: Range) -> list[Struct]:
    """Returns the message's own class, then its structs in the order of their first use."""
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    structs = [Struct(definition["name"], definition["fields"], versions)]
    seen: set[str] = set()

    def visit(fields: list[Json]) -> None:
        for field in fields:
            name = field["type"].removeprefix("[]")
            if not intersect(field_versions(field), versions) or not name[0].isupper() or name in seen:
                continue
            seen.add(name)
            inner = (field.get("fields") or common[name]) + OWN_FIELDS.get((definition["name"], name), [])
            structs.append(Struct(name, inner, versions))
            visit(inner)

    visit(definition["fields"])
    return structs


def write_class(struct: Struct, attributes: list[str]) -> Iterator[str]:
    slots = ", ".join(f'"{field.name}"' for field in struct.fields)
    yield f"class {struct.name}(Message):"
    yield f"    __slots__ = ({slots}{',' if len(struct.fields) == 1 else ''})"
    yield from (f"    {attribute}" for attribute in attributes)
    yield "    FIELDS = ("
    yield from (f"        {field.row}" for field in struct.fields)
    yield "    )"
    if struct.fields:
        yield ""
        yield "    def __init__("
        yield "        self,"
        yield "        *,"
        yield from (f"        {field.argument}" for field in struct.fields)
        yield "    ) -> None:"
        yield from (f"        {field.assignment}" for field in struct.fields)


def write_module(definition: Json, versions: Range, kafka_version: str) -> str:
    flexible = parse_versions(definition["flexibleVersions"])
    own_flexible = flexible[0] if flexible and flexible[0] <= versions[1] else None
    shared = [f"VERSIONS = {versions!r}", f"FLEXIBLE_FROM = {own_flexible!r}"]
    own = [
        f'NAME = "{definition["name"]}"',
        f"API_KEY = {definition.get('apiKey')!r}",
        f'TYPE = "{definition["type"]}"',
    ]
    structs = collect_structs(definition, versions)
    fields = [field for struct in structs for field in struct.fields]
    imports = ["NEW"] if any(field.default == () for field in fields) else []
    imports.append("Message")
    if any(field.type == "uuid" for field in fields):
        imports.insert(0, "ZERO_UUID")
    lines = [
        f"# {definition['name']} of Apache Kafka {kafka_version}, written by tools/generate_schema.py. Do not edit.",
        "from __future__ import annotations",
        "",
        f"from klamm.protocol.message import {', '.join(imports)}",
    ]
    for index, struct in enumerate(structs):
        lines += ["", "", *write_class(struct, (own if index == 0 else []) + shared)]
    return "\n".join(lines) + "\n"


def write_api_keys(definitions: list[tuple[Json, Range]], kafka_version: str) -> str:
    """Returns the module with the enumeration of APIs and the table that `api.py` reads."""
    requests = {d["apiKey"]: (d, v) for d, v in definitions if d["type"] == "request"}
    lines = [
        f"# From Apache Kafka {kafka_version}, written by tools/generate_schema.py. Do not edit.",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
        '    """The number that names an API in a request\'s header."""',
        "",
    ]
    stems = {key: snake_case(d["name"]).removesuffix("_request") for key, (d, _) in sorted(requests.items())}
    lines += [f"    {stem.upper()} = {key}" for key, stem in stems.items()]
    lines += [
        "",
        "",
        "# API key, lowest and highest stable version, first flexible version, name in modules and classes, listeners.",
        "API_TABLE: tuple[tuple[int, int, int, int | None, str, str, tuple[str, ...]], ...] = (",
    ]
    for key, stem in stems.items():
        definition, versions = requests[key]
        flexible = parse_versions(definition["flexibleVersions"])
        row = (
            key,
            *versions,
            flexible[0] if flexible else None,
            stem,
            definition["name"].removesuffix("Request"),
            tuple(definition.get("listeners", ())),
        )
        lines.append(f"    {literal(row)},")
    lines.append(")")
    lines += ["", f'KAFKA_VERSION = "{kafka_version}"']
    return "\n".join(lines) + "\n"


def write_coordinator_table(definitions: list[tuple[Json, Range]], module: str) -> Iterator[str]:
    keys = {d["apiKey"]: d["name"] for d, _ in definitions if d["type"] == "coordinator-key"}
    values = {d["apiKey"]: d["name"] for d, _ in definitions if d["type"] == "coordinator-value"}
    yield f"{module}: dict[int, tuple[str, str, str, str]] = {{"
    for record_type in sorted(keys):
        key, value = keys[record_type], values[record_type]
        yield f'    {record_type}: ("{snake_case(key)}", "{key}", "{snake_case(value)}", "{value}"),'
    yield "}"


def write_metadata_table(definitions: list[tuple[Json, Range]]) -> Iterator[str]:
    """Yields the table of the metadata log's records, which have no keys: module and class by record type."""
    names = {d["apiKey"]: d["name"] for d, _ in definitions if d["type"] == "metadata"}
    yield "METADATA_RECORDS: dict[int, tuple[str, str]] = {"
    for record_type in sorted(names):
        yield f'    {record_type}: ("{snake_case(names[record_type])}", "{names[record_type]}"),'
    yield "}"


def stable_versions(definitions: list[Json]) -> Iterator[tuple[Json, Range]]:
    """Yields each message with its stable versions. A response is unstable in the same version as its request."""
    unstable = {d["apiKey"] for d in definitions if d.get("latestVersionUnstable")}
    for definition in definitions:
        versions = parse_versions(definition["validVersions"])
        assert versions is not None
        low, high = versions
        if definition["type"] in ("request", "response") and definition.get("apiKey") in unstable:
            high -= 1
        if low <= high:
            yield definition, (low, high)


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.exit(__doc__)
    jars = find_jars(arguments)
    match = JAR.match(jars[0].name)
    assert match is not None
    kafka_version = match["version"]
    SCHEMA.mkdir(parents=True, exist_ok=True)
    for old in SCHEMA.glob("*.py"):
        old.unlink()
    everything: list[tuple[Json, Range]] = []
    record_tables: list[str] = []
    for jar in jars:
        definitions = list(stable_versions(list(read_definitions(jar))))
        everything += definitions
        if jar.name.startswith(("kafka-group", "kafka-transaction", "kafka-share")):
            room = jar.name.split("-")[1].upper()
            record_tables += ["", *write_coordinator_table(definitions, f"{room}_RECORDS")]
        elif jar.name.startswith("kafka-metadata"):
            record_tables += ["", *write_metadata_table(definitions)]
    names = [snake_case(definition["name"]) for definition, _ in everything]
    assert len(names) == len(set(names)), "two messages of one name"
    for name, (definition, versions) in zip(names, everything, strict=True):
        (SCHEMA / f"{name}.py").write_text(write_module(definition, versions, kafka_version))
    (SCHEMA / "api_keys.py").write_text(write_api_keys(everything, kafka_version))
    (SCHEMA / "record_types.py").write_text(
        f"# From Apache Kafka {kafka_version}, written by tools/generate_schema.py. Do not edit.\n"
        "# By record type: the key's module and class, the value's module and class.\n"
        "from __future__ import annotations\n" + "\n".join(record_tables) + "\n"
    )
    (SCHEMA / "__init__.py").write_text(
        f'"""Kafka {kafka_version}\'s messages, one module each, written by tools/generate_schema.py."""\n'
    )
    print(f"{len(names)} messages of Apache Kafka {kafka_version} written to {SCHEMA}")


if __name__ == "__main__":
    main(sys.argv[1:])
