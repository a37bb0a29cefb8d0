#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that includes point downward only, dlprim knows nothing of PyTorch, and only dlprim/runtime calls OpenCL.

An include counts by the file that it names, whatever way it takes there ("../net/net.hpp", a link); it is written
#include with a relative name, not with a macro. The backend includes dlprim's public headers alone. Files of kernels
include headers of their own folder and of `lib`, no header is left unused, and no two files have kernels of one name,
which profiles could not tell apart. Prints each violation as file:line and exits with 1 when there is one."""

import collections
import os
import pathlib
import re
import sys

import sources

# A layer may include itself and the layers before it in its row.
LAYERS = {
    "dlprim": ["runtime", "tuning", "primitives", "net"],
    "pytorch_ocl/csrc": ["runtime", "ops", "distributed"],
}
# Where includes are looked for, besides the folder of the file that has them.
ROOTS = {
    "dlprim": ["dlprim/include", "dlprim", "dlprim/runtime", "dlprim/tuning", "dlprim/primitives", "dlprim/net"],
    "pytorch_ocl/csrc": ["pytorch_ocl/csrc", "dlprim/include", "dlprim"],
}
# Headers that are installed, and may include only such.
PUBLIC = ("dlprim", "include")
# Public headers of no layer (dtype.hpp, error.hpp, tensor_view.hpp) belong to the lowest.
BASE = "runtime"
# Headers that collect others for programs: above all layers.
UMBRELLAS = {"dlprim.hpp"}
# Libraries that only one folder may use, by the names of their headers.
PRIVATE = {"dlprim/net/onnx": re.compile(r"^(google/protobuf/|onnx\.pb\.h$)")}
CODE = {".cpp", ".hpp", ".h", ".inc"}

DIRECTIVE = re.compile(r"^\s*(#|%:|\?\?=)\s*(include\w*|import)\b\s*(.*)")
NAME = re.compile(r'[<"]([^/>"][^>"]*)[>"]')
PYTORCH = re.compile(r"^(ATen|c10|torch|caffe2|pytorch_ocl)/")
KERNELS = pathlib.PurePosixPath("dlprim/kernels")
KERNEL_CODE = {".cl", ".clh"}
# What names a header besides other kernels: host code that writes kernels.
WRITERS = CODE | {".py"}

KERNEL = re.compile(r"\b(?:__kernel|KERNEL)\b.*?\bvoid\s+(\w+)\s*\(", re.S)
# Functions, called or not, and what calls them; handles may be kept.
OPENCL = re.compile(r"\bcl(?:[A-Z]\w*|::(?!Buffer\b|Event\b)\w+)")


def place(path):
    """(storey, layer) of a file; the layer is None for tests and what else stands above all layers."""
    parts = path.parts
    if parts[0] == "dlprim":
        inside = parts[3:] if parts[1:3] == ("include", "dlprim") else parts[1:]
        layer = inside[0] if len(inside) > 1 else None if path.name in UMBRELLAS else BASE
        return "dlprim", layer if layer in LAYERS["dlprim"] else None
    if parts[:2] == ("pytorch_ocl", "csrc"):
        return "pytorch_ocl/csrc", parts[2] if parts[2] in LAYERS["pytorch_ocl/csrc"] else None
    return None, None


def targets(root, path, storey, name):
    """The file that an include names, relative to the root; where there is none, what its name says by its folders."""
    places = [
        os.path.normpath(pathlib.PurePosixPath(folder) / name) for folder in [path.parent.as_posix(), *ROOTS[storey]]
    ]
    for at in places:
        if (root / at).is_file():
            return [pathlib.Path(os.path.relpath((root / at).resolve(), root.resolve()))]
    return [pathlib.Path(at) for at in (places[:1] if ".." in name else places[1:3]) if "/" in name]


def include_violation(root, path, name):
    """What is wrong with an include, or None."""
    storey, layer = place(path)
    if storey == "dlprim" and PYTORCH.match(name):
        return f"dlprim includes {name}, which belongs to PyTorch"
    found = targets(root, path, storey, name)
    private = any((root / target).is_file() and target.parts[:2] != PUBLIC for target in found)
    if path.parts[:2] == PUBLIC and private:
        return f"{name} is not installed beside the header that includes it"
    for target in found:
        other_storey, other = place(target)
        if (storey, other_storey) == ("pytorch_ocl/csrc", "dlprim") and (private or ".." in name):
            return f"{name} is no public header of dlprim"
        if storey == "dlprim" and target.parts[0] == "pytorch_ocl":
            return f"dlprim includes {name}, which belongs to PyTorch"
        known = other or (root / target).is_file()
        if layer and storey == other_storey and known and is_above(storey, other, layer):
            return f"{storey}/{layer} includes {name} of a layer above it"
    return None


def is_above(storey, other, layer):
    """Whether a layer is above another; tests and programs (None) are above all."""
    order = LAYERS[storey]
    return other is None or order.index(other) > order.index(layer)


def private_violation(path, layer, name):
    """The same for headers of libraries that belong to one folder; tests may use them."""
    for folder, headers in PRIVATE.items():
        if layer and headers.match(name) and not path.as_posix().startswith(folder + "/"):
            return f"{name} is included outside {folder}"
    return None


def includes(text):
    """(line, name) of every include; the name is None where it is not to be seen."""
    text = sources.without_noise(text, keep_strings=True)
    joined = re.sub(r"\\\n", "", text)  # every line that goes on, with those that it goes on with
    if joined != text:
        text = re.sub(r"(?:[^\n]*\\\n)+[^\n]*", lambda m: m[0].replace("\\\n", "") + "\n" * m[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        if match := DIRECTIVE.match(line):
            name = NAME.match(match[3])
            yield number, name[1] if name and match[1] == "#" and match[2] == "include" else None


def violations(path, text, root=sources.ROOT):
    """(line, message) for every rule that the file breaks."""
    storey, layer = place(path)
    if storey is None:
        return
    for number, name in includes(text):
        if name is None:
            yield number, "expected #include with a relative name"
        elif message := include_violation(root, path, name) or private_violation(path, layer, name):
            yield number, message
    if layer is None or (storey, layer) == ("dlprim", "runtime"):
        return
    for number, line in enumerate(sources.without_noise(text).splitlines(), 1):
        if call := OPENCL.search(line):
            yield number, f"{call[0]} is used outside dlprim/runtime"


def kernel_violations(texts, named):
    """(path, line, message) for the files of kernels {path below the folder: text}. `named` tells whether host code
    names a header."""
    users, homes = collections.Counter(), collections.defaultdict(set)
    for path, text in texts.items():
        folder = path.partition("/")[0]
        for number, name in includes(text):
            users[name] += 1
            if name is None:
                yield path, number, "expected #include with a relative name"
            elif name not in texts:
                yield path, number, f"{name} does not exist"
            elif "/" not in name or name.partition("/")[0] not in (folder, "lib"):
                yield path, number, f"{name} belongs to another family; what several share is in lib"
        for kernel in KERNEL.findall(sources.without_noise(text)):
            homes[kernel].add(path)
    for path in texts:
        if path.endswith(".clh") and not users[path] and not named(path):
            yield path, 1, "nothing includes this header"
    for kernel, paths in homes.items():
        if len(paths) > 1:
            yield max(paths), 1, f"{kernel} is the name of a kernel of {min(paths)}, too"


def main(root=sources.ROOT):
    tracked = sources.tracked_files(root)
    files = [path for path in tracked if path.suffix in CODE]
    found = [
        f"{path}:{number}: {message}"
        for path in files
        for number, message in violations(path, (root / path).read_text(), root)
    ]
    kernels = {
        path.relative_to(KERNELS).as_posix(): (root / path).read_text()
        for path in tracked
        if path.suffix in KERNEL_CODE and KERNELS in path.parents
    }
    writers = [(root / path).read_text() for path in tracked if path.suffix in WRITERS and path.parts[0] != "tools"]
    found += [
        f"{KERNELS / path}:{number}: {message}"
        for path, number, message in kernel_violations(kernels, lambda name: any(name in text for text in writers))
    ]
    files += kernels
    print("\n".join(found) if found else f"layers: {len(files)} files, no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:2])))
