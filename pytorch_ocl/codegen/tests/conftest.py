# SPDX-License-Identifier: MIT
import sys
from pathlib import Path

import pytest

CODEGEN = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CODEGEN))

import generate  # noqa: E402


class Workspace:
    """A folder of inputs, and the texts generated from it."""

    def __init__(self, path):
        self.path = path
        (path / "operators").mkdir()
        self.tables = {"pointwise": path / "pointwise_table.inc", "reduce": path / "reduce_table.inc"}
        for table in self.tables.values():
            table.write_text("")

    def family(self, name, text):
        (self.path / "operators" / f"{name}.yaml").write_text(text)

    def rows(self, kind, *names):
        self.tables[kind].write_text("".join(f'ROW({name}, "x")\n' for name in names))

    def generate(self):
        return generate.generate(
            generate.package_dir("torchgen"),
            generate.package_dir("torch") / "include",
            self.path / "operators",
            list(self.tables.items()),
        )

    def problems(self):
        """Messages of a generation that must fail."""
        from spec import SpecError

        with pytest.raises(SpecError) as caught:
            self.generate()
        return caught.value.problems


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)
