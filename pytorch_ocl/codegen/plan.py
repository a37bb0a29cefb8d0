# SPDX-License-Identifier: MIT
"""Decides what is registered: entries and rows, checked against the catalog, become units."""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog import Catalog
from spec import Entry, Family, SpecError, Table
from torchgen.model import NativeFunction, NativeFunctionsGroup


@dataclass(frozen=True)
class Unit:
    """Functions registered together. `family` is None for those a row brought in."""

    kind: str
    family: str | None
    functions: tuple[NativeFunction, ...]
    group: NativeFunctionsGroup | None = None
    row: str | None = None
    entry: Entry | None = None

    @property
    def layout(self) -> str:
        return self.entry.layout if self.entry else ""

    @property
    def structured(self) -> bool:
        return self.group is not None and self.group.structured and self.kind != "functions" and not self.layout


@dataclass(frozen=True)
class Stub:
    name: str
    header: str
    row: str


@dataclass
class Plan:
    units: list[Unit] = field(default_factory=list)
    stubs: dict[str, list[Stub]] = field(default_factory=dict)


def make_plan(catalog: Catalog, stubs: dict[str, str], families: list[Family], tables: list[Table]) -> Plan:
    """Raises SpecError with every problem found."""
    planner = Planner(catalog, stubs, families, tables)
    planner.add_entries()
    planner.add_rows()
    planner.add_stubs()
    if planner.problems_:
        raise SpecError(planner.problems_)
    return planner.plan_


class Planner:
    def __init__(self, catalog: Catalog, stubs: dict[str, str], families: list[Family], tables: list[Table]):
        self.catalog_ = catalog
        self.stubs_ = stubs
        self.families_ = families
        self.tables_ = tables
        self.plan_ = Plan()
        self.problems_: list[str] = []
        self.owner_: dict[str, Entry] = {}
        self.excluded_ = {name: family for family in families for name in family.exclude}
        self.excluded_used_: set[str] = set()

    def add_entries(self) -> None:
        build = {"shared": self.shared, "structured": self.structured, "functions": self.function}
        for family in self.families_:
            for entry in family.entries:
                try:
                    if self.known(entry):
                        for unit in build[entry.kind](entry):
                            self.claim(unit)
                    elif entry.name not in family.optional:
                        hint = self.catalog_.suggestion(entry.name)
                        raise ValueError(f"no such function in this torch{hint}")
                except ValueError as error:
                    self.problems_.append(f"{entry}: {error}")

    def known(self, entry: Entry) -> bool:
        return bool(self.catalog_.find(entry.name) or (entry.kind == "shared" and self.catalog_.with_base(entry.name)))

    def claim(self, unit: Unit) -> None:
        for f in unit.functions:
            other = self.owner_.setdefault(unit.layout + str(f.func.name), unit.entry)
            if other is not unit.entry:
                raise ValueError(f"{f.func.name} is registered already by {other}")
        self.plan_.units.append(unit)

    def shared(self, entry: Entry) -> list[Unit]:
        if entry.layout:
            return self.of_layout(entry)
        unshared = entry.options.get("unshared", False)
        f = self.catalog_.find(entry.name)
        base = self.catalog_.with_base(entry.name)
        units = [] if not base else self.shared_units(base, unshared)
        if not units and f is not None:
            units = self.shared_units([f], unshared)
        if not units:
            f = f or base[0]
            reason = (
                "it is composite and needs no registration"
                if f.has_composite_kernel
                else (
                    f"CPU and CUDA share no host code ({self.catalog_.kernels(self.primary(f))}); "
                    "use structured, functions, or the option unshared"
                )
            )
            raise ValueError(reason)
        return [Unit("shared", entry.family, u.functions, u.group, entry=entry) for u in units]

    def of_layout(self, entry: Entry) -> list[Unit]:
        """One function, by PyTorch's host code for tensors of the layout on the CPU."""
        f = self.catalog_.find(entry.name)
        if f is None or self.catalog_.layout_kernel(entry.layout, f) is None:
            raise ValueError(f"PyTorch has no host code for {entry.layout}")
        return [Unit("shared", entry.family, (f,), self.catalog_.group(f), entry=entry)]

    def primary(self, f: NativeFunction) -> NativeFunction:
        group = self.catalog_.group(f)
        return group.out if group is not None and group.structured else f

    def shared_units(self, functions: list[NativeFunction], unshared: bool = False) -> list[Unit]:
        """The shared functions among the groups of those given, one unit a group."""
        usable = self.catalog_.cpu_kernel if unshared else self.catalog_.is_shared
        units, seen = [], set()
        for f in functions:
            group = self.catalog_.group(f)
            members = (f,) if group is None else tuple(group.functions())
            if members[0].func.name in seen:
                continue
            seen.add(members[0].func.name)
            if group is not None and group.structured:
                chosen = members if usable(group.out) else ()
            else:
                chosen = tuple(m for m in members if usable(m) and not m.manual_kernel_registration)
            names = {str(m.func.name) for m in chosen}
            self.excluded_used_ |= names & self.excluded_.keys()
            chosen = tuple(m for m in chosen if str(m.func.name) not in self.excluded_)
            if chosen:
                units.append(Unit("shared", None, chosen, group))
        return units

    def structured(self, entry: Entry) -> list[Unit]:
        group = self.catalog_.group(self.catalog_.find(entry.name))
        if group is None or not group.structured:
            raise ValueError("not a structured function in this torch; use functions")
        if entry.name != str(group.out.func.name):
            raise ValueError(f"name the out overload, {group.out.func.name}")
        return [Unit("structured", entry.family, tuple(group.functions()), group, entry=entry)]

    def function(self, entry: Entry) -> list[Unit]:
        f = self.catalog_.find(entry.name)
        if f.manual_kernel_registration:
            raise ValueError("PyTorch registers it by hand for every backend")
        if f.has_composite_implicit_autograd_kernel and not entry.options.get("composite"):
            raise ValueError(
                "it is CompositeImplicitAutograd: serving it here would lose its derivative; "
                "serve what it calls, or give the option composite"
            )
        group = self.catalog_.group(f)
        functions = (f,)
        if entry.options.get("variants"):
            if group is None or f is not group.functional:
                raise ValueError("variants needs the functional overload of a group")
            taken = {e.name for family in self.families_ for e in family.entries}
            functions = tuple(m for m in group.functions() if m is f or str(m.func.name) not in taken)
        return [Unit("functions", entry.family, functions, group, entry=entry)]

    def add_rows(self) -> None:
        for table in self.tables_:
            for row in table.rows:
                if row in self.excluded_:
                    self.excluded_used_.add(row)
                    continue
                for unit in self.shared_units(self.catalog_.with_base(row)):
                    left = tuple(f for f in unit.functions if str(f.func.name) not in self.owner_)
                    if left:
                        self.plan_.units.append(Unit("row", None, left, unit.group, row=row))
                        for f in left:
                            self.owner_[str(f.func.name)] = Entry(table.path.name, "row", row)
        for name in sorted(self.excluded_.keys() - self.excluded_used_):
            file = f"operators/{self.excluded_[name].name}.yaml"
            self.problems_.append(f"{file}: exclude: {name}: no row, and nothing shared is called so")

    def add_stubs(self) -> None:
        overrides: dict[str, str | None] = {}
        all_rows = {row for table in self.tables_ for row in table.rows}
        for family in self.families_:
            for stub, row in family.stubs.items():
                where = f"operators/{family.name}.yaml: stubs: {stub}"
                if stub in overrides:
                    self.problems_.append(f"{where}: listed in another family as well")
                elif stub not in self.stubs_:
                    self.problems_.append(f"{where}: no header in ATen/native declares this stub")
                elif row is not None and row not in all_rows:
                    self.problems_.append(f"{where}: no table has a row {row}")
                overrides[stub] = row
        claimed: dict[str, str] = {stub: row for stub, row in overrides.items() if row}
        for table in self.tables_:
            chosen = self.plan_.stubs.setdefault(table.kind, [])
            for row in table.rows:
                names = [stub for stub, served in claimed.items() if served == row]
                names += [self.stub_of(row)] if self.stub_of(row) not in (None, *overrides) else []
                chosen += [Stub(name, self.stubs_[name], row) for name in names if name in self.stubs_]

    def stub_of(self, row: str) -> str | None:
        return next((n for n in (f"{row}_stub", f"{row}_kernel", row) if n in self.stubs_), None)
