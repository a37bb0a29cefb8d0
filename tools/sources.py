# SPDX-License-Identifier: MIT
"""The project's source files and their text without comments, for the checks in this folder."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]

_NOISE = re.compile(r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' """, re.S | re.X)


def tracked_files(root=ROOT):
    """Files of the repository that git knows or would add, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(pathlib.Path(name) for name in listing.split("\0") if name and (root / name).is_file())


def without_noise(text, keep_strings=False):
    """C++ or OpenCL C with comments and (unless kept) literals emptied; line numbers stay."""

    def replace(match):
        word = match[0]
        if word[0] in "\"'":
            return word if keep_strings else word[0] * 2
        return "\n" * word.count("\n")

    return _NOISE.sub(replace, re.sub(r"(?<=\d)'(?=\d)", "", text))
