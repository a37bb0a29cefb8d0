# SPDX-License-Identifier: MIT
"""Launches halve work-groups that a device or kernel does not allow, unless the kernel requires its size. So every
kernel whose work-items share local memory, or that counts in work-groups, must require it."""

import pathlib
import re

KERNELS = pathlib.Path(__file__).parents[2] / "dlprim/kernels"
# Their hosts ask the kernel for its largest work-group before they choose.
ASKING = {"gemm_reduce", "gemm_reduce_rows", "foreach", "count_bins", "count_values", "ordered_write"}


def test_kernels_that_rely_on_their_work_group_require_it():
    wanting = set()
    for file in KERNELS.rglob("*.cl"):
        parts = re.split(
            r"((?:__attribute__\(\([^\n]*\)\)\s*(?:#endif\s*)?)?__kernel\b[^{;]*)\{", file.read_text(encoding="utf-8")
        )
        for head, body in zip(parts[1::2], parts[2::2]):
            kernel = body.split("\n}")[0]
            if re.search(r"\b(barrier|__local|get_group_id)\b", kernel) and "reqd_work_group_size" not in head:
                wanting.add(re.search(r"(\w+)\(", head.split("void")[1])[1])
    assert wanting <= ASKING, sorted(wanting - ASKING)
