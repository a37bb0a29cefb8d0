# SPDX-License-Identifier: MIT
"""torchvision with its own CPU kernels, as reference: also beside a PyTorch without CUDA, where its wheel from PyPI
cannot be loaded for lack of CUDA's libraries. What it wants of those is replaced by functions that do nothing, which is
enough for the kernels of the CPU."""

import ctypes
import importlib.util
import pathlib
import re
import subprocess
import tempfile

import torch

_CUDA = re.compile(r"^(_*cuda|_ZNK?3c104cuda|_ZNK?2at4cuda)")


def _symbols(library):
    """Undefined symbols of a shared library that belong to CUDA, and the libraries of CUDA that it names."""
    table = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in table.splitlines()}
    needed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return sorted(filter(_CUDA.match, names)), re.findall(r"\[(lib\w*cud\w*\.so[.\d]*)\]", needed)


def _load_replacements(library):
    symbols, needed = _symbols(library)
    folder = pathlib.Path(tempfile.mkdtemp())
    runtime = next(name for name in needed if name.startswith("libcudart"))
    code = "".join(
        f'void *f{i}(void) __asm__("{name}"); void *f{i}(void) {{ static char nothing[4096]; return nothing; }}\n'
        for i, name in enumerate(symbols)
    )
    (folder / "all.c").write_text(code)
    (folder / "none.c").write_text("int unused;\n")
    (folder / "versions").write_text(f"{runtime} {{ global: cuda*; __cuda*; }};\n")
    for name in needed:
        source, extra = ("all.c", [f"-Wl,--version-script={folder}/versions"]) if name == runtime else ("none.c", [])
        subprocess.run(
            ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", *extra, folder / source, "-o", folder / name], check=True
        )
        ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)


def load():
    """torchvision, with kernels for the CPU."""
    library = pathlib.Path(importlib.util.find_spec("torchvision").origin).parent / "_C.so"
    try:
        ctypes.CDLL(str(library))
    except OSError:
        _load_replacements(library)
    import torchvision

    assert torchvision.extension._has_ops(), "torchvision's own operators were not loaded"
    assert "CPU" in torch._C._dispatch_dump("torchvision::nms")
    return torchvision
