# SPDX-License-Identifier: MIT
"""Generates the operator registrations of pytorch_ocl for one torch; run by cmake/codegen.cmake.

    generate.py --output DIR [--torchgen DIR] [--torch-include DIR] [--operators DIR] [--table KIND=FILE ...]
    generate.py --show mm.out ...      prints what an author implements

Files whose content is unchanged keep their time; files of earlier runs that are no longer made are removed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def package_dir(name: str) -> Path:
    """Where a package would be imported from, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"codegen: no package {name} here; give its directory")
    return Path(spec.origin).parent


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchgen", type=Path, help="directory of torchgen (default: installed)")
    parser.add_argument("--torch-include", type=Path, help="torch's include directory (default: installed)")
    parser.add_argument("--operators", type=Path, default=HERE.parent / "operators")
    parser.add_argument(
        "--table", action="append", default=[], metavar="KIND=FILE", help="pointwise=... or reduce=..., any number"
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--show", nargs="+", metavar="FUNCTION", help="print the signature to implement")
    return parser.parse_args(argv)


def generate(
    torchgen_dir: Path, torch_include: Path, operators: Path, tables: list[tuple[str, Path]]
) -> dict[str, str]:
    """Relative path -> content of all that is generated; `tables` are pairs of kind and file. Raises spec.SpecError."""
    use_torchgen(torchgen_dir)
    from catalog import Catalog, find_stubs
    from emit import Emitter
    from plan import make_plan
    from spec import load_families, load_table

    families = load_families(operators)
    catalog = Catalog(torchgen_dir)
    plan = make_plan(catalog, find_stubs(torch_include), families, [load_table(kind, path) for kind, path in tables])
    return Emitter(catalog, plan, [family.name for family in families]).texts()


def use_torchgen(directory: Path) -> None:
    """torchgen is imported from the directory given: it must be that of the torch built for."""
    sys.path.insert(0, str(directory.resolve().parent))
    import torchgen

    if Path(torchgen.__file__).resolve().parent != directory.resolve():
        raise SystemExit(f"codegen: torchgen was imported from {torchgen.__file__}, wanted {directory}")


def write(output: Path, texts: dict[str, str]) -> int:
    """Writes what changed and removes what is no longer generated; returns how many files changed."""
    changed = 0
    for relative, text in texts.items():
        path = output / relative
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            changed += 1
    for pattern in ("*.cpp", "structured/*.h", "functions/*.h"):
        for path in output.glob(pattern):
            if str(path.relative_to(output)) not in texts:
                path.unlink()
                changed += 1
    return changed


def show(torchgen_dir: Path, names: list[str]) -> None:
    """Prints the declaration an author implements for each function."""
    use_torchgen(torchgen_dir)
    from catalog import Catalog
    from emit import Emitter
    from plan import Plan, Unit
    from spec import Entry

    catalog = Catalog(torchgen_dir)
    emitter = Emitter(catalog, Plan(), [])
    for name in names:
        f = catalog.find(name)
        if f is None:
            raise SystemExit(f"codegen: {name}: no such function in this torch{catalog.suggestion(name)}")
        group = catalog.group(f)
        primary = group.out if group is not None and group.structured else f
        shared = " (shared)" if catalog.is_shared(primary) else ""
        print(f"// {f.func}\n// {catalog.kernels(primary)}{shared}")
        if group is not None and group.structured:
            print(emitter.structured_class(Unit("structured", "", tuple(group.functions()), group)))
        else:
            entry = Entry("", "functions", name)
            print(emitter.declaration(Unit("functions", "", (f,), group, entry=entry)), "\n")


def main(argv: list[str] | None = None) -> int:
    options = parse_arguments(argv)
    torchgen_dir = options.torchgen or package_dir("torchgen")
    if options.show:
        show(torchgen_dir, options.show)
        return 0
    if options.output is None:
        raise SystemExit("codegen: --output is required")
    use_torchgen(torchgen_dir)
    from spec import SpecError

    tables = [table.split("=", 1) for table in options.table]
    try:
        texts = generate(
            torchgen_dir,
            options.torch_include or package_dir("torch") / "include",
            options.operators,
            [(kind, Path(path)) for kind, path in tables],
        )
    except SpecError as error:
        print("\n".join(f"codegen: error: {problem}" for problem in error.problems), file=sys.stderr)
        return 1
    changed = write(options.output, texts)
    print(f"codegen: {len(texts)} files, {changed} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
