# SPDX-License-Identifier: MIT
"""Which elements of a buffer a work-item can read and write at once.

The units of a work-item are neighbouring elements of a kernel's index space: `vector` of them, of which the first has a
multiple of `vector` as its index."""

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

_SIZES = (SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT)


def is_multiple(number, vector):
    """Whether this is known to be a multiple, whatever sizes come."""
    return vector == 1 or V.graph.sizevars.statically_known_multiple_of(sympy.sympify(number), vector)


def width(form, features):
    """The units of a kernel of this form: up to 16 bytes of its widest elements, at least 4, as far as they divide its
    index space."""
    if form == "columns":
        return 1
    names = {dep.name for node in features.scheduler_nodes() for dep in node.read_writes.reads_and_writes()}
    sizes = [V.graph.get_dtype(name).itemsize for name in names if V.graph.try_get_buffer(name) is not None]
    vector = 8 if max(sizes, default=4) <= 2 else 4
    count = features.numel if form == "elements" else features.reduction_numel
    while not is_multiple(count, vector):
        vector //= 2
    return vector


def is_unit(entry, vector):
    """Whether a variable of the index space counts the units."""
    return entry.divisor == 1 and is_multiple(entry.length, vector)


def is_common(entry, vector):
    """Whether a variable of the index space is the same for all units of a work-item."""
    return is_multiple(entry.divisor, vector)


def has_neighbours(index, entries, tree, vector):
    """Whether the elements at `index`, ready to be printed, of a work-item's units lie side by side, the first at a
    multiple of `vector`. `entries` are the variables of the index space, `tree` those of which units are counted."""
    units, others = [], []
    for symbol in index.free_symbols:
        entry = entries.get(symbol)
        if entry is not None and entry.root is tree:
            (units if is_unit(entry, vector) else others).append(symbol)
        elif entry is None and not symbol_is_type(symbol, _SIZES):
            return False  # a value that was loaded
    if vector == 1:
        return bool(units or others)
    if len(units) != 1 or not all(is_common(entries[symbol], vector) for symbol in others):
        return False
    rest = sympy.expand(index - units[0])
    if units[0] in rest.free_symbols:
        return False
    return all(_coefficient(term) % vector == 0 or is_multiple(term, vector) for term in sympy.Add.make_args(rest))


def _coefficient(term):
    number = term.as_coeff_Mul()[0]
    return int(number) if number.is_Integer else 1
