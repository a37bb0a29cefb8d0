# SPDX-License-Identifier: MIT
"""The commands of `python -m pytorch_ocl`; each module has add_arguments(parser) and run(options) -> exit code."""
