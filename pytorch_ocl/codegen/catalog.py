# SPDX-License-Identifier: MIT
"""What the torch found offers: its functions, their groups, and the dispatch stubs its headers declare."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from spec import LAYOUTS
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import BackendMetadata, DispatchKey, NativeFunction, NativeFunctionsGroup


class Catalog:
    """Functions of a torch, by exact name (`add.Tensor`) and by base name (`add`)."""

    def __init__(self, torchgen_dir: Path):
        native = torchgen_dir / "packaged/ATen/native"
        parsed = parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml"))
        self.cpu_ = parsed.backend_indices[DispatchKey.CPU]
        self.cuda_ = parsed.backend_indices[DispatchKey.CUDA]
        self.layouts_ = {layout: parsed.backend_indices[DispatchKey[layout + "CPU"]] for layout in LAYOUTS}
        self.functions_: dict[str, NativeFunction] = {str(f.func.name): f for f in parsed.native_functions}
        self.group_of_: dict[str, NativeFunctionsGroup] = {}
        self.by_base_: dict[str, list[NativeFunction]] = {}
        for f in parsed.native_functions:
            self.by_base_.setdefault(f.root_name, []).append(f)
        for group in get_grouped_native_functions(parsed.native_functions):
            if isinstance(group, NativeFunctionsGroup):
                for f in group.functions():
                    self.group_of_[str(f.func.name)] = group

    def find(self, name: str) -> NativeFunction | None:
        return self.functions_.get(name)

    def group(self, f: NativeFunction) -> NativeFunctionsGroup | None:
        return self.group_of_.get(str(f.func.name))

    def with_base(self, base: str) -> list[NativeFunction]:
        return self.by_base_.get(base, [])

    def cpu_kernel(self, f: NativeFunction) -> BackendMetadata | None:
        return self.cpu_.get_kernel(f)

    def layout_kernel(self, layout: str, f: NativeFunction) -> BackendMetadata | None:
        """What serves tensors of a layout on the CPU."""
        return self.layouts_[layout].get_kernel(f)

    def is_shared(self, f: NativeFunction) -> bool:
        """Whether one host function serves both the CPU and CUDA; ufuncs have equal ones, named apart."""
        cpu, cuda = self.cpu_.get_kernel(f), self.cuda_.get_kernel(f)
        if cpu is None or cuda is None:
            return False
        return cpu.kernel == cuda.kernel or (
            cpu.kernel.startswith("ufunc_") and cpu.kernel.replace("_CPU", "_CUDA") == cuda.kernel
        )

    def kernels(self, f: NativeFunction) -> str:
        """For messages: what serves the CPU and CUDA."""
        names = [index.get_kernel(f) for index in (self.cpu_, self.cuda_)]
        return "CPU: {}, CUDA: {}".format(*(m.kernel if m else "none" for m in names))

    def suggestion(self, name: str) -> str:
        """`; did you mean ...?`, or nothing."""
        base = name.split(".")[0]
        overloads = [str(f.func.name) for f in self.with_base(base.rstrip("_")) + self.with_base(base)]
        near = list(dict.fromkeys(overloads)) or difflib.get_close_matches(name, self.functions_, n=3)
        return f"; did you mean {', '.join(near[:8])}?" if near else ""


def find_stubs(torch_include: Path) -> dict[str, str]:
    """Dispatch stubs declared by the installed headers: name -> header to include."""
    argument = r"(?:[^()]|\([^()]*\))*"
    declaration = re.compile(rf"^\s*DECLARE_DISPATCH\({argument},\s*(\w+)\s*\)", re.M)
    stubs = {}
    for header in sorted((torch_include / "ATen/native").glob("*.h")):
        if header.name != "DispatchStub.h":
            for name in declaration.findall(header.read_text()):
                stubs.setdefault(name, f"ATen/native/{header.name}")
    return stubs
