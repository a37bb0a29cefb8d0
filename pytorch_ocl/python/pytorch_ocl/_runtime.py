# SPDX-License-Identifier: MIT
"""Finds what has to be there before the backend's library is loaded: the library of this PyTorch and OpenCL
drivers.

OpenCL loaders read the drivers from /etc/OpenCL/vendors. Two kinds of drivers are often installed without an
entry there: Intel's CPU runtime from PyPI (intel-opencl-rt), and NVIDIA's in containers. `prepare` lists
these beside the system's own in a folder and points the loader at it. It imports nothing but the standard
library.
"""

import ctypes
import hashlib
import os
import pathlib
import site
import sys
import tempfile
import warnings

SYSTEM_VENDORS = pathlib.Path("/etc/OpenCL/vendors")
SYSTEM_LIBRARIES = [
    pathlib.Path("/usr", name) for name in ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib")
]
LOADER = "libOpenCL.so.1"
# Set by the user, these say where drivers are: then nothing is changed.
USER_CHOICES = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "DLPRIM_OPENCL_LIBRARY")
# What libintelocl.so and Intel's own OpenCL loader need, in this order; the package is intel-cmplr-lib-rt.
INTEL_LIBRARIES = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")


def environments():
    """The lib folders of this Python environment and of those it includes."""
    prefixes = [sys.prefix, site.getuserbase(), sys.base_prefix]
    return [pathlib.Path(prefix) / "lib" for prefix in dict.fromkeys(prefixes)]


def intel_runtime():
    """libintelocl.so as pip installed it, or None."""
    for folder in environments():
        driver = folder / "libintelocl.so"
        if driver.exists():
            if missing := [name for name in INTEL_LIBRARIES if not (folder / name).exists()]:
                warnings.warn(
                    f"Intel's OpenCL runtime in {folder} lacks {missing[0]}: pip install intel-cmplr-lib-rt",
                    stacklevel=2,
                )
                return None
            return driver
    return None


def nvidia_driver():
    """libnvidia-opencl.so.1 of the system, or None."""
    return next((p for folder in SYSTEM_LIBRARIES if (p := folder / "libnvidia-opencl.so.1").exists()), None)


def system_entries():
    """{file name: contents} of the system's .icd files."""
    try:
        return {p.name: p.read_text() for p in sorted(SYSTEM_VENDORS.glob("*.icd"))}
    except OSError:
        return {}


def unlisted_drivers(entries):
    """{file name: contents} for drivers that are installed but have no entry."""
    listed = {pathlib.Path(text.strip()).name for text in entries.values()}
    drivers = {"nvidia.icd": nvidia_driver(), "intel_pip.icd": intel_runtime()}
    return {name: f"{path}\n" for name, path in drivers.items() if path and path.name not in listed}


def cache_folder():
    """Where dlprim keeps its files, as dlprim/runtime/disk_cache.cpp finds it."""
    if chosen := os.environ.get("DLPRIM_CACHE_DIR"):
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path(os.environ.get("HOME", "/nonexistent")) / ".cache"
    return pathlib.Path(base) / "dlprim"


def fill_folder(folder, entries):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in entries.items():
        target = folder / name
        if not target.exists() or target.read_text() != text:
            part = folder / f"{name}.{os.getpid()}"
            part.write_text(text)
            part.replace(target)
    return folder


def write_vendors(entries):
    """A folder with these .icd files. Its name depends on the contents, so that processes can share it."""
    digest = hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:16]
    try:
        return fill_folder(cache_folder() / f"vendors-{digest}", entries)
    except OSError:
        return fill_folder(pathlib.Path(tempfile.mkdtemp(prefix="dlprim-vendors-")), entries)


def can_load(library):
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True


def prepare_loader():
    """Where the system has no OpenCL loader, offers the one that comes with Intel's runtime."""
    if can_load(LOADER):
        return
    for folder in environments():
        if (folder / LOADER).exists():
            # It does not say where its libraries are: they must be in memory before it is opened.
            for name in INTEL_LIBRARIES:
                can_load(folder / name)
            os.environ["DLPRIM_OPENCL_FALLBACK_LIBRARY"] = str(folder / LOADER)
            return


def prepare():
    """Makes installed OpenCL drivers visible to this process. To be called before the first use of OpenCL."""
    if not sys.platform.startswith("linux"):
        return
    if "DLPRIM_OPENCL_LIBRARY" not in os.environ:
        prepare_loader()
    if any(name in os.environ for name in USER_CHOICES):
        return
    entries = system_entries()
    if added := unlisted_drivers(entries):
        os.environ["OCL_ICD_VENDORS"] = str(write_vendors({**entries, **added}))


def library_path(torch_version):
    """The backend's library for a PyTorch version such as "2.13.0+cpu". Raises ImportError when there is
    none."""
    version = ".".join(torch_version.split(".")[:2])
    folder = pathlib.Path(__file__).parent / "lib"
    name = f"pytorch_ocl_torch{version}"
    library = folder / (f"{name}.dll" if os.name == "nt" else f"lib{name}.so")
    if not library.exists():
        found = {p.stem.split("torch")[-1] for p in folder.glob("*pytorch_ocl_torch*")}
        found = sorted(found, key=lambda text: (len(text), text))  # 2.9 before 2.11
        raise ImportError(
            f"pytorch_ocl was not built for torch {torch_version}: {folder} has "
            f"{'libraries for torch ' + ', '.join(found) if found else 'no library'}. Install "
            f"{'one of these versions of torch, or ' if found else ''}pytorch_ocl from its source beside this torch "
            f"(pip install --no-build-isolation .)"
        )
    return str(library)
