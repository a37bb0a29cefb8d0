#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes scikit-learn's 1,797 handwritten digits of 8x8 pixels as files of MNIST's format: digits.py FOLDER."""

import pathlib
import struct
import sys

import numpy as np
import sklearn.datasets


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    digits = sklearn.datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.images * 255 / 16).round()[order], digits.target[order]
    for part, rows in (("train", slice(0, 1437)), ("t10k", slice(1437, None))):
        write_idx(folder / f"{part}-images-idx3-ubyte", images[rows])
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels[rows])


if __name__ == "__main__":
    main(sys.argv[1])
