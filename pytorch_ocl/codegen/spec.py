# SPDX-License-Identifier: MIT
"""What the authors wrote: the families' yaml files and the row names of dlprim's tables."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

KINDS = ("shared", "structured", "functions")
OPTIONS = {
    "shared": {"unshared"},
    "structured": {"dtypes"},
    "functions": {"device_check", "guard", "symint", "variants", "composite", "overlap", "dtypes"},
}
LAYOUTS = ("NestedTensor", "Sparse", "SparseCsr")
DTYPES = ("bool", "bytes", "integers", "floating", "complex")


class SpecError(Exception):
    """One or more problems in the input, each naming file, entry and reason."""

    def __init__(self, problems: list[str]):
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Entry:
    family: str
    kind: str
    name: str
    options: dict[str, bool | list[str]] = field(default_factory=dict, hash=False)
    layout: str = ""

    def __str__(self) -> str:
        return f"operators/{self.family}.yaml: {self.kind}: {self.name}"


@dataclass
class Family:
    name: str
    entries: list[Entry] = field(default_factory=list)
    stubs: dict[str, str | None] = field(default_factory=dict)
    exclude: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    layout: str = ""


@dataclass(frozen=True)
class Table:
    """A dlprim table: `kind` is pointwise or reduce, `rows` its row names in order."""

    kind: str
    path: Path
    rows: tuple[str, ...]


def load_families(directory: Path) -> list[Family]:
    """Reads every yaml file of the directory, sorted by name; raises SpecError with all problems found."""
    problems: list[str] = []
    families = []
    for path in sorted(directory.glob("*.yaml")):
        try:
            data = yaml.safe_load(path.read_text())
        except yaml.YAMLError as error:
            problems.append(f"operators/{path.name}: not valid yaml: {error}")
            continue
        families.append(parse_family(path.stem, data or {}, problems))
    if problems:
        raise SpecError(problems)
    return families


def parse_family(name: str, data: object, problems: list[str]) -> Family:
    where = f"operators/{name}.yaml"
    family = Family(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        problems.append(f"{where}: a family's name must be snake_case")
    if not isinstance(data, dict):
        problems.append(f"{where}: expected a mapping with keys {known_keys()}, got {type(data).__name__}")
        return family
    for key, value in data.items():
        if key in KINDS:
            for item in as_list(where, key, value, problems):
                entry = parse_entry(name, key, item, problems)
                if entry:
                    family.entries.append(entry)
        elif key in ("exclude", "optional"):
            names = as_list(where, key, value, problems)
            problems += [f"{where}: {key}: {n!r} is not a name" for n in names if not isinstance(n, str)]
            setattr(family, key, [n for n in names if isinstance(n, str)])
        elif key == "stubs":
            family.stubs = parse_stubs(where, value, problems)
        elif key == "dtypes":
            check_dtypes(where, value, problems)
        elif key == "layout" and value in LAYOUTS and "structured" not in data:
            family.layout = value
        elif key == "layout":
            problems.append(
                f"{where}: layout: expected one of {', '.join(LAYOUTS)} and nothing structured, got {value!r}"
            )
        else:
            problems.append(f"{where}: unknown key {key!r}; known are {known_keys()}")
    family.entries = [dataclasses.replace(entry, layout=family.layout) for entry in family.entries]
    for entry in family.entries:
        if "dtypes" in data and "dtypes" in OPTIONS[entry.kind]:
            entry.options.setdefault("dtypes", data["dtypes"])
    names = {entry.name for entry in family.entries}
    for optional in family.optional:
        if optional not in names:
            problems.append(f"{where}: optional: {optional}: not in any list of this file")
    return family


def parse_entry(family: str, kind: str, item: object, problems: list[str]) -> Entry | None:
    where = f"operators/{family}.yaml: {kind}"
    if isinstance(item, str):
        return Entry(family, kind, item)
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        problems.append(f"{where}: {item!r}: expected a name, or a mapping with `name`")
        return None
    options = {key: value for key, value in item.items() if key != "name"}
    for key, value in options.items():
        if key not in OPTIONS[kind]:
            known = ", ".join(sorted(OPTIONS[kind])) or "none"
            problems.append(f"{where}: {item['name']}: unknown option {key!r}; known are: {known}")
        elif key == "dtypes":
            check_dtypes(f"{where}: {item['name']}", value, problems)
        elif not isinstance(value, bool):
            problems.append(f"{where}: {item['name']}: option {key} must be true or false, got {value!r}")
    return Entry(family, kind, item["name"], options)


def parse_stubs(where: str, value: object, problems: list[str]) -> dict[str, str | None]:
    if not isinstance(value, dict):
        problems.append(f"{where}: stubs: expected a mapping from stub to row, got {value!r}")
        return {}
    for stub, row in value.items():
        if not isinstance(stub, str) or not (row is None or isinstance(row, str)):
            problems.append(f"{where}: stubs: {stub!r}: expected a row name or null, got {row!r}")
    return value


def check_dtypes(where: str, value: object, problems: list[str]) -> None:
    if not isinstance(value, list) or not value or not all(name in DTYPES for name in value):
        problems.append(f"{where}: dtypes: expected a list of {', '.join(DTYPES)}, got {value!r}")


def as_list(where: str, key: str, value: object, problems: list[str]) -> list:
    if value is None or isinstance(value, list):
        return value or []
    problems.append(f"{where}: {key}: expected a list, got {value!r}")
    return []


def known_keys() -> str:
    return ", ".join((*KINDS, "stubs", "dtypes", "layout", "exclude", "optional"))


def load_table(kind: str, path: Path) -> Table:
    """Row names of a table file: the first argument of each ROW(...) that begins a line."""
    if not path.is_file():
        raise SpecError([f"{path}: no such table ({kind})"])
    text = path.read_text()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*(//|#(?:[^\n\\]|\\\n|\\.)*).*$", "", text, flags=re.M)
    rows = re.findall(r"^\s*ROW\(\s*([A-Za-z_]\w*)\s*[,)]", text, flags=re.M)
    twice = sorted({row for row in rows if rows.count(row) > 1})
    if twice:
        raise SpecError([f"{path.name}: {row}: row defined twice" for row in twice])
    return Table(kind, path, tuple(rows))
