# SPDX-License-Identifier: MIT
"""A fused kernel: Inductor's scheduled loops as one OpenCL C kernel.

Three forms, which macros of dlprim/kernels/lib/fused.clh make loops of: "elements" without a reduction; "rows" where
those who share a row combine their partial results; "columns" where reduced elements lie far apart or are few, so that
neighbouring columns are reduced side by side. A kernel of several reductions that need each other's results has a loop
for each, a phase.
"""

import re

import sympy
import torch
from torch._inductor.codegen.common import CSE, DeferredLine, IndentedBuffer, PythonPrinter
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.utils import get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from pytorch_ocl.inductor import assembly, runtime, stages, types, vectors
from pytorch_ocl.inductor.overrides import OclOverrides
from pytorch_ocl.inductor.printer import exceeds_int, is_real, is_symbol, print_float, print_index
from pytorch_ocl.inductor.reductions import reduction
from pytorch_ocl.inductor.row_values import RowValues

_SHORT_ROW = 16  # elements up to which rows are reduced side by side
_SHORT_ROW_OF_CPU = 47  # that fill no vectors


class OclCSE(CSE):
    """Writes variables with their types."""

    def generate(self, buffer, expr, *, dtype=None, **options):
        if options.get("assignment", True) and isinstance(dtype, torch.dtype):
            self.prefix = f"{types.computed(dtype)} "
        values = V.kernel.row_values
        given = values.known(V.kernel, expr) if isinstance(expr, str) else expr
        variable = super().generate(buffer, given, dtype=dtype, **options)
        V.kernel.note_variable(variable)
        if isinstance(expr, str):
            variable.text = expr
            values.note(V.kernel, buffer, variable, expr, dtype)
        return variable


class OclKernel(SIMDKernel):
    """Writes loads, operations, reductions and stores."""

    overrides = OclOverrides
    suffix = ";"
    sexpr = kexpr = staticmethod(print_index)
    pexpr = PythonPrinter().doprint

    def __init__(self, tiling, in_runs=True, **options):
        super().__init__(tiling, **options)
        self.cse = OclCSE("", ";")
        self.loop_start, self.loop_end = IndentedBuffer(), IndentedBuffer()
        self.checks_start, self.checks_end = IndentedBuffer(), IndentedBuffer()  # around a loop
        self.block_start, self.block_end = IndentedBuffer(), IndentedBuffer()
        self.loop_indexing, self.row_stores = IndentedBuffer(), IndentedBuffer()
        self.common_indexing, self.fetches, self.flushes = IndentedBuffer(), IndentedBuffer(), IndentedBuffer()
        self.fetched, self.kept = {}, {}  # {(buffer, index): variable} of this phase, and of all
        self.column_results, self.new_results = [], []  # lines that fetch a column's results in later phases
        self.beyond_loops = OrderedSet()  # variables that outlive the phase
        self.guards = []  # (condition around it, loops' variables, the text of when they are out of range)
        self.messages = {}  # that the kernel may report: {text: name of its code}
        self.scratch = []  # types that are combined
        self.special_type = None
        self.uses_atomics = False
        self.accumulators = self.fetch_count = self.puts = self.checks = 0
        self.tile = 0  # see vectors.tile_width
        properties = torch.ocl.get_device_properties(self._device())
        self.on_cpu = properties.type == "cpu" and not runtime.gpu_forms
        self.form = "elements" if not self.inside_reduction else "columns" if self._has_columns() else "rows"
        self.in_strips = True  # nothing but numbers is reduced in this phase
        self.calls_library = False  # for functions that no loop of a CPU has as vector code
        prefix = "r0_" if self.form == "rows" else "x"
        self.unit_tree = next(tree for tree in self.range_trees if tree.prefix == prefix)
        # Neighbours of short rows lie far apart.
        single = self.form == "columns" and self._is_short()
        self.row_values = RowValues(self)
        self.run = vectors.run_length(self.features, self.form) if in_runs and self.on_cpu else 0
        self.vector = 1 if single or self.run else vectors.width(self.form, self.features, self.unit_tree.numel)
        nodes = self.features.scheduler_nodes()
        self.written = OrderedSet(dep.name for node in nodes for dep in node.read_writes.writes)

    def _is_short(self):
        length, sizes = self.features.reduction_numel, V.graph.sizevars
        short = sizes.statically_known_leq(length, _SHORT_ROW_OF_CPU if self.on_cpu else _SHORT_ROW)
        return short and not (self.on_cpu and sizes.statically_known_multiple_of(length, 32))

    def _has_columns(self):
        """Whether neighbouring elements of what is reduced belong to different rows, or rows are short."""
        sizes = V.graph.sizevars
        if self._is_short():
            return True
        along, across = 0, 0
        for node in self.features.reduction_nodes():
            body = node._body
            for expression in body.get_read_exprs():
                strides = sizes.stride_hints(expression, [*body.iter_vars, *body.reduce_vars])
                kept, reduced = strides[: len(body.iter_vars)], strides[len(body.iter_vars) :]
                along += 1 in reduced
                across += 1 in kept and 1 not in reduced and any(reduced)
        return across > along

    def row_length(self):
        """Elements of a row, 0 where that changes; without rows, those of the rows of tiles."""
        if self.form == "elements":
            return self.tile
        count = self.features.reduction_numel
        return int(count) if isinstance(count, (int, sympy.Integer)) else 0

    def new_buffer(self):
        return IndentedBuffer()

    def dtype_to_str(self, dtype):
        return types.computed(dtype)

    def note_variable(self, variable):
        """A row's variables outside of loops stay known within the following ones."""
        if not self.inside_reduction and self.form != "columns":
            self.beyond_loops.add(variable)

    def number(self, expr, wanted):
        """The text of an index expression whose value is wanted as a dtype, and its own dtype: int64 where int may not
        hold it. Sizes are among such, as they may be numbers that the caller gave. Fractions wanted as another dtype
        than double are float; what is rounded to whole numbers is REAL before."""
        expr = self.prepare_indexing(expr)
        real = (torch.float64 if wanted == torch.float64 else torch.float32) if is_real(expr) else None
        printed = print_float if real == torch.float32 else print_index
        text, dtype = printed(self.rename_indexing(expr)), self.get_index_dtype_as_torch_dtype()
        lengths = {symbol: entry.length for symbol, entry in self.range_tree_nodes.items()}
        if dtype == torch.int32 and exceeds_int(expr, lengths):
            dtype, sizes = torch.int64, set(self.args.sizevars.values())
            for name in {str(symbol) for symbol in self.rename_indexing(expr).free_symbols if symbol.is_integer}:
                text = re.sub(rf"\b{name}\b", f"p.{name}" if name in sizes else f"((long){name})", text)
        return text, real or dtype

    def special(self, value):
        """An argument of a function of lib/special.clh, whose type is one in a kernel."""
        kind = types.computed(value.dtype) if types.is_real(value.dtype) else "float"
        if self.special_type not in (None, kind):
            kind = "double"
        self.special_type = kind
        return str(value)

    # Memory

    def _in_units(self):
        """Whether what is written now is done for each unit of a work-item."""
        return self.form == "elements" or self.inside_reduction

    def _first(self, index):
        """The text of a work-item's first index, where its units lie side by side from there on, else None."""
        if not self._in_units() or self._load_mask or self.run:
            return None
        space = self.range_tree_nodes, self.unit_tree, self.vector
        if not vectors.has_neighbours(index, *space):
            if self.form == "elements":
                self.tile = self.tile or vectors.tile_width(index, *space)
            return None
        text = self.index_to_str(index)
        for symbol in index.free_symbols:
            entry = self.range_tree_nodes.get(symbol)
            if entry is not None and entry.root is self.unit_tree:
                text = re.sub(rf"\b{symbol}\b", f"{symbol}_first", text)
        return text

    def _fetch(self, name, dtype, pointer, first, at):
        """An element that is read with its neighbours."""
        # By name: a buffer that takes another's memory has the same pointer, not the same elements.
        key, storage, keep = (name, first), types.storage(dtype), self.form == "rows" and name not in self.written
        if key not in self.fetched:
            macro = "FETCH_AGAIN" if key in self.kept else "FETCH_KEPT" if keep else "FETCH"
            variable = self.kept.get(key, f"fetched{self.fetch_count}")
            if macro != "FETCH_AGAIN":
                self.fetch_count += 1
            if macro == "FETCH_KEPT":
                self.kept[key] = variable
                self.indexing_code.writeline(f"KEEP({storage}, {variable})")
            self.fetches.writeline(f"{macro}({storage}, {variable}, {pointer}, {first})")
            self.fetched[key] = variable
        return f"{'KEPT' if keep else 'FETCHED'}({storage}, {self.fetched[key]}, {pointer}, {at})"

    def _place(self, index):
        """The text of an index, 0 where a check of its variables failed, and of the first of its neighbours."""
        index = self.prepare_indexing(index)
        outside = [
            text
            for mask, symbols, text in self.guards
            if mask in (None, self._load_mask) and symbols <= index.free_symbols
        ]
        if outside:
            return f"({' || '.join(outside)}) ? 0 : {self.index_to_str(index)}", None
        return self.index_to_str(index), self._first(index)

    def load(self, name, index):
        dtype = V.graph.get_dtype(name)
        pointer = self.args.input(name)
        at, first = self._place(index)
        element = f"{pointer}[{at}]" if first is None else self._fetch(name, dtype, pointer, first, at)
        text = types.decode(dtype, element)
        self.row_values.changing = name in self.written
        value = self.cse.generate(self.loads, text, dtype=torch.float32 if dtype in types.CODED else dtype)
        self.row_values.changing = False
        return value

    def _store_line(self, name, index, value, mode):
        dtype = V.graph.get_dtype(name)
        pointer = self.args.output(name)
        at, first = self._place(index)
        if mode is None:
            target = f"{pointer}[{at}]"
            if first is not None:
                variable, storage = f"put{self.puts}", types.storage(dtype)
                self.puts += 1
                self.fetches.writeline(DeferredLine(name, f"WILL_PUT({storage}, {variable})"))
                self.flushes.writeline(DeferredLine(name, f"FLUSH({storage}, {variable}, {pointer}, {first})"))
                target = f"PUT({storage}, {variable}, {pointer}, {at})"
            return f"{target} = {types.encode(dtype, value)};"
        if mode != "atomic_add":
            raise NotImplementedError(f"stores of mode {mode}")
        if dtype.itemsize == 8 and not V.graph.scheduler.get_backend(self._device()).int64_atomics(self._device()):
            raise NotImplementedError("atomic additions of 64 bits on this device")
        if dtype in types.SMALL:
            raise NotImplementedError(f"atomic additions of {dtype}")
        self.uses_atomics = True
        return f"ADD({types.tag(dtype)}, {dtype.itemsize}, {pointer} + ({at}), {value});"

    def store(self, name, index, value, mode=None):
        line = self._store_line(name, index, value, mode)
        if self.form == "rows" and not self.inside_reduction:  # all work-items of the group are here
            line = f"ONCE {line}"
        self.stores.writeline(DeferredLine(name, line))

    def store_reduction(self, name, index, value):
        inside, self.inside_reduction = self.inside_reduction, False
        try:
            line = self._store_line(name, index, value, None)
        finally:
            self.inside_reduction = inside
        if self.form == "rows":
            line = f"ONCE {line}"
        (self.row_stores if inside else self.stores).writeline(DeferredLine(name, line))

    # Reductions

    def reduction(self, dtype, src_dtype, reduction_type, value):
        if not self.inside_reduction or self._load_mask:
            raise NotImplementedError("a reduction within a condition")
        key = (src_dtype, dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self._reduce(dtype, src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def _reduce(self, dtype, src_dtype, name, value):
        index = "r0_index"
        if name.startswith("arg") and isinstance(value, tuple):
            value, index = value
        how = reduction(name, dtype, src_dtype, index)
        accumulator, whole = f"acc{self.accumulators}", f"row{self.accumulators}"
        self.accumulators += 1
        self.loop_start.writeline(f"const {how.kind} {accumulator}_start = {how.start};")
        values = {"value": value} if not isinstance(value, tuple) else {f"value{i}": v for i, v in enumerate(value)}
        if self.form == "rows":
            self._reduce_row(how, accumulator, whole, values)
        else:
            self.loop_start.writeline(f"ACCUMULATOR({how.kind}, {accumulator})")
            self.compute.writeline(how.update.format(acc=f"AT({accumulator})", **values))
        results = []
        for expression, result_dtype in how.results:
            variable = self.cse.newvar(dtype=result_dtype)
            kind = types.computed(result_dtype)
            if self.form == "rows":
                self.loop_end.writeline(f"{kind} {variable} = {expression.format(acc=whole)};")
            else:
                given = expression.format(acc=how.convert.format(acc=f"AT({accumulator})"))
                self.new_results.append(f"{kind} {variable} = {given};")
            self.beyond_loops.add(variable)
            results.append(variable)
        return results[0] if len(results) == 1 else tuple(results)

    def _reduce_row(self, how, accumulator, whole, values):
        """Writes a reduction along rows, whose result is the variable `whole`."""
        if how.is_number:
            self.loop_start.writeline(f"NUMBERS({how.kind}, {accumulator})")
            self.block_start.writeline(f"LATEST({how.kind}, {accumulator})")
            self.compute.writeline(f"REDUCE_NUMBER({accumulator}, {how.combine}, {values['value']})")
            self.block_end.writeline(f"TAKE_LATEST({how.kind}, {accumulator}, {how.combine})")
            self.loop_end.writeline(f"COMBINE_ROW({how.kind}, {whole}, {accumulator}, {how.combine})")
            self.scratch.append(how.kind)
            return
        self.loop_start.writeline(f"ACCUMULATOR({how.kind}, {accumulator})")
        self.in_strips = False
        self.compute.writeline(how.update.format(acc=f"AT({accumulator})", **values))
        kind = how.whole or how.kind
        self.scratch.append(kind)
        if how.whole:
            given = how.convert.format(acc=f"AT({accumulator})")
            self.loop_end.writeline(f"PER_LANE({kind}, part_{accumulator})")
            self.loop_end.writeline(f"FOR_EACH_LANE AT(part_{accumulator}) = {given};")
            accumulator = f"part_{accumulator}"
        self.loop_end.writeline(f"COMBINE_STRUCTS({kind}, {whole}, {accumulator}, {how.combine})")

    # Bounds

    def _code(self, message):
        return "p." + self.messages.setdefault(message, f"code{len(self.messages)}")

    def check_bounds(self, expr, size, lower, upper):
        if not (lower or upper):
            return
        index = self.index_to_str(self.prepare_indexing(expr))
        limit = self.index_to_str(self.prepare_indexing(size))
        size_text = f" with size {limit}" if isinstance(size, sympy.Integer) else ""
        code = self._code(f"index %lld is out of bounds for dimension{size_text}")
        below, above = [f"{index} < 0"] * lower, [f"{index} >= {limit}"] * upper
        outside = " || ".join(below + above)
        report = f"REPORT(status, (int){code}, {index});"
        # And the access goes to the first element instead.
        if not (is_symbol(expr) and index.startswith("tmp")):
            self.guards.append((self._load_mask, self.range_tree_nodes.keys() & expr.free_symbols, outside))
            self.compute.writeline(f"if ({outside}) {{ {report} }}")
        elif self._sees_extremes(size):
            if not self.row_values.was_checked(index, code):
                self._note_extremes(index, code, lower, limit if upper else None)
            self.compute.writeline(f"{index} = {' | '.join(f'({text})' for text in below + above)} ? 0 : {index};")
        else:
            self.compute.writeline(f"if ({outside}) {{ {report} {index} = 0; }}")

    def _sees_extremes(self, size):
        """Whether indices are checked after a loop, by the least and the largest: branches keep CPUs' compilers from
        making vector code of it."""
        in_loop = (self.form == "elements" and self.run) or (self.form == "rows" and self.inside_reduction)
        return self.on_cpu and in_loop and not self.range_tree_nodes.keys() & size.free_symbols

    def _note_extremes(self, index, code, lower, limit):
        number, self.checks = self.checks, self.checks + 1
        for name, bound, function in (("lowest", "0" * lower, "min"), ("highest", limit, "max")):
            if bound:
                seen = f"{name}{number}"
                self.checks_start.writeline(f"long {seen} = 0;")
                self.compute.writeline(f"{seen} = {function}({seen}, (long){index});")
                wrong = f"{seen} < 0" if name == "lowest" else f"{seen} >= {bound}"
                self.checks_end.writeline(f"if ({wrong}) REPORT(status, (int){code}, {seen});")

    def device_assert_async(self, cond, msg):
        self.compute.writeline(f"if (!{cond}) REPORT(status, (int){self._code(str(msg).replace('%', '%%'))}, 0);")

    # Assembly

    def codegen_iteration_ranges_entry(self, entry):
        kind, text = self.index_dtype, self.kexpr(self.rename_indexing(entry.expr))
        if entry.root is not self.unit_tree:
            # Along columns the same for all units.
            buffer = self.indexing_code if not entry.root.is_reduction else self.common_indexing
            buffer.writeline(f"const {kind} {entry.name} = {text};")
            return
        first = re.sub(r"\b(x|r0_)index\b", r"\1first", text)
        if vectors.is_common(entry, self.run or self.vector):
            self.common_indexing.writeline(f"const {kind} {entry.name}_first = {first};")
        if self.form == "columns":
            if self.run and vectors.is_common(entry, self.run):
                lane = " + lane" if vectors.is_unit(entry, self.run) else ""
                text = f"{first}{lane}"
            self.indexing_code.writeline(f"const {kind} {entry.name} = {text};")
        elif vectors.is_unit(entry, self.run or self.vector):
            self.loop_indexing.writeline(f"const {kind} {entry.name} = {entry.name}_first + unit;")
        elif vectors.is_common(entry, self.run or self.vector):
            self.loop_indexing.writeline(f"const {kind} {entry.name} = {entry.name}_first;")
        else:
            self.loop_indexing.writeline(f"const {kind} {entry.name} = {text};")

    def codegen_body(self):
        """Writes a phase: what was gathered since the last."""
        phase = (self.loop_indexing, self.loads, self.compute, self.stores)
        if self.inside_reduction:
            if any(part.getvalue() for part in (*phase, self.loop_end)):
                (self._write_row_loop if self.form == "rows" else self._write_column_loop)(phase)
        elif self.form == "columns":
            if any(part.getvalue() for part in phase):
                self._write_each_column(phase)
        elif self.form == "elements":
            self._write_units("x", phase)
        else:
            for part in phase:
                self.body.splice(part)
        fetches = (self.common_indexing, self.fetches, self.flushes)
        loops = (self.loop_start, self.block_start, self.block_end, self.loop_end, self.checks_start, self.checks_end)
        for part in (*phase, *fetches, *loops, self.row_stores):
            part.clear()
        self.fetched.clear()
        self.in_strips = True
        self.row_values.end_loop()
        if self.inside_reduction or self.form == "columns":
            self.cse.invalidate(self.beyond_loops)
            for node in self.range_tree_nodes.values():
                if node.root.is_reduction or self.form == "columns":
                    node.cache_clear()
        if self.form == "columns":
            self.indexing_code.clear()

    def _write_units(self, prefix, phase):
        """Reads what is fetched, does a phase for each unit, writes what it put."""
        for part in (self.common_indexing, self.fetches):
            self.body.splice(part)
        if self.run:
            self.body.splice(self.checks_start)
        texts = [part.getvalue() for part in phase[1:]]
        can_stage = self.run and prefix == "x" and not assembly.calls_library("".join(texts))
        staged = can_stage and stages.split(*(text.splitlines() for text in texts))
        if staged:
            self._write_stages(phase[0], *staged)
        else:
            self._write_each_unit("EACH_OF_RUN" if self.run else "EACH_UNIT", prefix, phase)
        self.body.splice(self.flushes)
        if self.run:
            self.body.splice(self.checks_end)

    def _write_each_unit(self, loop, prefix, parts):
        kind = self.index_dtype
        self.body.writeline(f"{loop}({kind}) {{")
        with self.body.indent():
            self.body.writeline(f"const {kind} {prefix}index = {prefix}first + unit;")
            for part in parts:
                self.body.splice(part)
        self.body.writeline("}")

    def _write_stages(self, indexing, arrays, texts):
        self.body.writeline(f"EACH_BLOCK({self.index_dtype}) {{")
        with self.body.indent():
            for kind, name in arrays:
                self.body.writeline(f"{kind} kept_{name}[BLOCK];")
            for lines in texts:
                self._write_each_unit("EACH_IN_STAGE", "x", (indexing, "\n".join(lines)))
        self.body.writeline("}")

    def _write_row_loop(self, phase):
        for part in (self.checks_start, self.loop_start):
            self.body.splice(part)
        (self._write_row_runs if self.run else self._write_row_blocks)(phase, bool(self.loop_start.getvalue()))
        for part in (self.checks_end, self.loop_end, self.row_stores):
            self.body.splice(part)

    def _block(self):
        return "STRIP" if self.in_strips else "LANES"

    def _write_row_blocks(self, phase, reduces):
        kind = self.index_dtype
        if reduces:
            self.body.writeline(f"REDUCE_ROW({kind}, r0_numel, {self._block()}) {{")
            self.body.splice(self.block_start)
        self.body.writeline(f"EACH_IN_BLOCK({kind}) {{" if reduces else f"EACH_IN_ROW({kind}, r0_numel) {{")
        with self.body.indent():
            self.body.writeline(f"TRIP({kind}, r0_numel)")
            self._write_units("r0_", phase)
        self.body.writeline("}")
        if reduces:
            self.body.splice(self.block_end)
            self.body.writeline("}")

    def _write_row_runs(self, phase, reduces):
        kind, loop = self.index_dtype, "REDUCE_RUNS" if reduces else "RUNS_IN_ROW"
        block = f", {self._block()}" if reduces else ""
        self.body.writeline(f"{loop}({kind}, r0_numel, {self.index_to_str(self.run)}{block}) {{")
        with self.body.indent():
            self.body.writeline(f"TRIP({kind}, r0_numel)")
            for part in (self.block_start, self.common_indexing):
                self.body.splice(part)
            self.body.writeline(f"EACH_LANE({kind}) {{")
            with self.body.indent():
                self.body.writeline(f"const {kind} r0_index = r0_first + unit;")
                for part in phase:
                    self.body.splice(part)
            self.body.writeline("}")
            self.body.splice(self.block_end)
        self.body.writeline("}")

    def _write_column_loop(self, phase):
        self.body.splice(self.loop_start)
        self.body.writeline(f"DOWN_COLUMN({self.index_dtype}, r0_numel) {{")
        with self.body.indent():
            self.body.splice(self.common_indexing)
            self.body.splice(self.fetches)
            self._write_each_column(phase)
            self.body.splice(self.flushes)
        self.body.writeline("}")
        self.column_results += self.new_results
        self.new_results = []
        if self.row_stores.getvalue():
            self._write_each_column((self.row_stores,))

    def _write_each_column(self, parts):
        self.body.writeline(f"EACH_COLUMN({self.index_dtype}) {{")
        with self.body.indent():
            self.body.writeline(f"COLUMN_INDEX({self.index_dtype})")
            self.body.writelines(self.column_results)
            self.body.splice(self.indexing_code)
            for part in parts:
                self.body.splice(part)
        self.body.writeline("}")

    def _device(self):
        return V.graph.get_current_device_or_throw()

    def numels_by_name(self):
        """{name: number or expression} of the sizes of the kernel's index space."""
        return {f"{tree.prefix}numel": tree.numel for tree in self.range_trees}

    def parameters(self):
        """Names of the numbers a kernel takes, and the expressions that the caller computes them by."""
        names = {inner: outer for outer, inner in self.args.sizevars.items()}
        for name, numel in self.numels_by_name().items():
            if not isinstance(numel, (sympy.Integer, int)):
                names[name] = numel
        return names

    def buffers(self):
        """(name within the kernel, the caller's name, dtype, whether only read) of its buffers."""
        definitions, callers, _, dtypes = self.args.python_argdefs()
        outputs = set(map(str, self.args.output_buffers.values()))
        found = []
        for definition, caller, dtype in zip(definitions, callers, dtypes):
            name = getattr(definition, "name", definition)
            if isinstance(dtype, torch.dtype) and isinstance(caller, str):
                found.append((name, caller, dtype, name not in outputs and not name.startswith("in_out")))
        return found

    def codegen_kernel(self, name=None):
        self.codegen_body()
        return assembly.text([self])

    def call_kernel(self, name, node=None, deallocate_ws=True, items=None):
        """Writes the call. `items` of the index space, if not the kernel's own."""
        wrapper = V.graph.wrapper_code
        tensors = []  # (the caller's name, whether it is to be moved to the device first)
        for _, caller, _, _ in self.buffers():
            buffer = V.graph.try_get_buffer(caller)
            device = buffer.get_device() if buffer is not None else None
            tensors.append((caller, device is not None and device.type == "cpu"))
        numbers = [sympy.sympify(expression) for expression in self.parameters().values()]
        for number in numbers:
            for symbol in number.free_symbols:
                wrapper.ensure_size_computed(symbol)
        items = V.graph.sizevars.simplify(sympy.sympify(self.numels["x"] if items is None else items))
        wrapper.call_fused(name, self._device(), tensors, numbers, items)

    def codegen_nan_check(self):
        """Has the program look for NaN and infinity in what the kernel wrote (`config.nan_asserts`)."""
        for _, caller, dtype, constant in self.buffers():
            if not constant and types.is_real(dtype) and dtype not in types.SMALL:
                V.graph.wrapper_code.check_numbers(caller)

    def describe(self, node_schedule):
        """Comments that say which operators of the graph a kernel stands for."""
        return "\n".join(get_kernel_metadata(node_schedule, V.graph.wrapper_code)[:2])
