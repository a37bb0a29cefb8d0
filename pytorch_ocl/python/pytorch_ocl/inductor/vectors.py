# SPDX-License-Identifier: MIT
"""Which elements of a buffer a work-item can read and write at once.

The units of a work-item are neighbouring elements of a kernel's index space: `vector` of them, of which the first has a
multiple of `vector` as its index."""

import math

import sympy
from torch._inductor.dependencies import MemoryDep
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

TILE = 8  # vectors side by side in a tile: lib/fused.clh and csrc/runtime/fused_kernel.cpp have the same number
_LEAST_RUN = 16  # shorter loops cost CPUs more than they save
_SIZES = (SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT)


def is_multiple(number, vector):
    """Whether this is known to be a multiple, whatever sizes come."""
    return vector == 1 or V.graph.sizevars.statically_known_multiple_of(sympy.sympify(number), vector)


def width(form, features, along):
    """The units of a kernel of this form: 16 bytes of the elements that most is read and written of, two where they are
    columns, as far as they divide the index space `along` which they lie."""
    space = _hint(features.numel * features.reduction_numel)
    nodes = features.scheduler_nodes()
    # Other dependencies are no elements: sizes that a buffer brings, which itself may be none.
    deps = [dep for node in nodes for dep in node.read_writes.reads_and_writes() if isinstance(dep, MemoryDep)]
    names = {dep.name for dep in deps if 2 * _hint(dep.get_numel()) >= space}
    sizes = [V.graph.get_dtype(name).itemsize for name in names if V.graph.try_get_buffer(name) is not None]
    widest = max(sizes, default=4)
    vector = 2 if form == "columns" else 8 if widest <= 2 else 4
    while not is_multiple(along, vector):
        vector //= 2
    return vector


def run_length(features, form):
    """Elements of an index space, of rows or of columns, one after the other, between which only the last dimension of
    any loop advances; 0 where those are few, or their number is not known to divide what it must."""
    # Of columns: the loops without a reduction also run along what is reduced.
    nodes = features.reduction_nodes() if form == "columns" else features.scheduler_nodes()
    whole = sympy.sympify(features.reduction_numel if form == "rows" else features.numel)
    lengths = set()
    for node in nodes:
        ranges = node.get_ranges()[1 if form == "rows" and node.is_reduction() else 0]
        ranges = [size for size in ranges if size != 1]
        if len(ranges) > 1:
            lengths.add(V.graph.sizevars.simplify(sympy.sympify(ranges[-1])))
    if all(length.is_Integer for length in (whole, *lengths)):
        run = sympy.Integer(math.gcd(int(whole), *map(int, lengths)))
    elif len(lengths) <= 1:
        run = next(iter(lengths), whole)
    else:
        return 0
    return run if _hint(run) >= _LEAST_RUN and is_multiple(whole, run) else 0


def _hint(number):
    """A number that decides nothing but speed."""
    sizes = V.graph.sizevars
    hint = getattr(sizes, "optimization_hint", None) or sizes.size_hint  # its name before PyTorch 2.13
    return hint(sympy.sympify(number), fallback=1)


def is_unit(entry, vector):
    """Whether a variable of the index space counts the units."""
    return entry.divisor == 1 and is_multiple(entry.length, vector)


def is_common(entry, vector):
    """Whether the first unit's value of a variable of the index space gives those of the others: it counts them, or is
    the same for all."""
    return is_unit(entry, vector) or is_multiple(entry.divisor, vector)


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


def tile_width(index, entries, tree, vector):
    """Elements after which the neighbours in memory of an element at `index` come in the index space, where those along
    the units lie far apart: that of a matrix which is transposed. Else 0."""
    units, others = [], []
    for symbol in index.free_symbols:
        entry = entries.get(symbol)
        if entry is not None and entry.root is tree:
            (units if entry.divisor == 1 else others).append(symbol)
    if len(units) != 1:
        return 0
    index = sympy.expand(index)
    if index.coeff(units[0]) in (0, 1):
        return 0
    widths = [entries[symbol].divisor for symbol in others if index.coeff(symbol) == 1]
    fits = len(widths) == 1 and isinstance(widths[0], sympy.Integer) and widths[0] % (TILE * vector) == 0
    return int(widths[0]) if fits else 0


def _coefficient(term):
    number = term.as_coeff_Mul()[0]
    return int(number) if number.is_Integer else 1
