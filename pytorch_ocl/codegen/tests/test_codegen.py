# SPDX-License-Identifier: MIT
"""What is generated for each kind of entry, and what is refused. No compiler needed."""

import json
import os

import generate
import pytest
from spec import load_table


def names(texts, **wanted):
    operators = json.loads(texts["operators.json"])["operators"]
    return {o["name"] for o in operators if all(o[key] == value for key, value in wanted.items())}


def code(texts, family):
    return texts[f"register_{family}.cpp"]


def test_row_takes_stub_and_shared_functions(workspace):
    workspace.rows("pointwise", "sin", "eq")
    texts = workspace.generate()
    assert "OCL_STUB(sin_stub, sin)" in texts["stubs_pointwise.cpp"]
    assert "#include <ATen/native/UnaryOps.h>" in texts["stubs_pointwise.cpp"]
    assert names(texts, row="sin") == {"sin", "sin_", "sin.out"}
    assert {"eq.Tensor", "eq.Scalar_out", "eq_.Scalar"} <= names(texts, row="eq")
    shards = "".join(text for path, text in texts.items() if path.startswith("register_rows_"))
    assert 'add("sin.out", &wrapper_OCL_sin_out_out)' in shards
    for kind, arguments in (("Functional", ""), ("Inplace", "(self)"), ("Out", "(out)")):
        assert f"pytorch_ocl::{kind}Kernel<at::native::structured_sin_out, 1> op{arguments};" in shards


def test_ufunc_counts_as_shared(workspace):
    workspace.rows("pointwise", "add")
    assert names(workspace.generate(), row="add") == {"add.Tensor", "add_.Tensor", "add.out"}


def test_row_without_stub_or_function_is_silent(workspace):
    workspace.rows("pointwise", "no_such_thing")
    texts = workspace.generate()
    assert names(texts) == set() and "OCL_STUB(no" not in texts["stubs_pointwise.cpp"]


def test_reduce_rows(workspace):
    workspace.rows("reduce", "sum")
    texts = workspace.generate()
    assert "pytorch_ocl::ReduceStub<dlprim::ReduceId::row" in texts["stubs_reduce.cpp"]
    assert {"sum.dim_IntList", "sum.IntList_out"} == names(texts, row="sum")


def test_stub_map(workspace):
    workspace.rows("pointwise", "gelu", "fill")
    workspace.family("basic", "stubs: {GeluKernel: gelu, fill_stub: null}")
    text = workspace.generate()["stubs_pointwise.cpp"]
    assert "OCL_STUB(GeluKernel, gelu)" in text and "fill_stub" not in text


def test_multi_line_stub_declaration(workspace):
    workspace.rows("pointwise", "clamp_scalar", "linspace")
    text = workspace.generate()["stubs_pointwise.cpp"]
    assert "OCL_STUB(clamp_scalar_stub" in text and "OCL_STUB(linspace_stub" in text


def test_exclude_row_and_function(workspace):
    workspace.rows("pointwise", "sin", "cos")
    workspace.family("basic", "exclude: [sin, cos_]")
    assert names(workspace.generate()) == {"cos", "cos.out"}


def test_exclude_from_a_shared_group(workspace):
    workspace.family("basic", "shared: [max]\nexclude: [max.dim, max.dim_max]\nfunctions: [max.dim, max.dim_max]")
    texts = workspace.generate()
    assert names(texts, kind="functions") == {"max.dim", "max.dim_max"}
    assert names(texts, kind="shared") == {"max", "max.unary_out"}


def test_entry_wins_over_row(workspace):
    workspace.rows("reduce", "prod")
    workspace.family("mine", "functions: [prod]")
    texts = workspace.generate()
    assert names(texts, family="mine") == {"prod"}
    assert "prod" not in names(texts, kind="row") and "prod.int_out" in names(texts, kind="row")


def test_shared_by_base_name_and_by_member(workspace):
    workspace.family("compare", "shared: [eq]")
    workspace.family("divide", "shared: [div.out_mode]")
    texts = workspace.generate()
    assert len(names(texts, family="compare")) == 6
    assert names(texts, family="divide") == {"div.Tensor_mode", "div_.Tensor_mode", "div.out_mode"}


def test_structured(workspace):
    workspace.family("gemm", "structured: [mm.out]")
    texts = workspace.generate()
    assert "struct structured_mm_out : public at::meta::structured_mm" in texts["structured/mm_out.h"]
    assert (
        "void impl(const at::Tensor & self, const at::Tensor & mat2, const at::Tensor & out);"
        in texts["structured/mm_out.h"]
    )
    assert '#include "generated/structured/mm_out.h"' in code(texts, "gemm")
    assert "pytorch_ocl::OutKernel<pytorch_ocl::structured_mm_out, 1> op(out);" in code(texts, "gemm")
    assert '#include "ops/structured.hpp"' in code(texts, "gemm")
    assert "check_and_update_common_device(common_device, mat2" in code(texts, "gemm")
    assert names(texts) == {"mm", "mm.out"}


def test_structured_with_precomputed_arguments(workspace):
    workspace.family("pool", "structured: [avg_pool2d.out]")
    texts = workspace.generate()
    assert "int64_t kH, int64_t kW" in texts["structured/avg_pool2d_out.h"]
    assert "precompute.kH" in code(texts, "pool")


def test_functions_are_declared_guarded_and_checked(workspace):
    workspace.family("memory", "functions: [resize_, nonzero, as_strided, {name: _copy_from, device_check: false}]")
    texts = workspace.generate()
    header, source = texts["functions/memory.h"], code(texts, "memory")
    assert "at::Tensor nonzero(const at::Tensor & self);" in header
    resize = source[source.index("resize_(") : source.index("pytorch_ocl::ops::resize_")]
    assert "OptionalDeviceGuard device_guard(device_of(self))" in resize
    copy = source[source.index("_copy_from(") : source.index("pytorch_ocl::ops::_copy_from")]
    assert "common_device" not in copy
    strided = source[source.index("as_strided(") : source.index("pytorch_ocl::ops::as_strided")]
    assert "device_guard" not in strided


def test_written_tensors_are_checked_for_overlap(workspace):
    workspace.family("gemm", "structured: [addmv.out]\nfunctions: [nonzero.out, {name: fill_.Scalar, overlap: true}]")
    source = code(workspace.generate(), "gemm")
    assert "check_overlap(out, self, mat, vec);" in source and "check_overlap(self, mat, vec);" in source
    assert "check_overlap(out, self);" in source
    assert source.count("check_overlap(") == 3


def test_dtypes_are_checked(workspace):
    workspace.family(
        "gemm",
        "dtypes: [floating, complex]\nstructured: [mm.out]\n"
        "functions: [{name: nonzero.out, dtypes: [bytes]}, {name: eye.out, dtypes: [integers]}]",
    )
    source = code(workspace.generate(), "gemm")
    mask = "pytorch_ocl::served::floating_ | pytorch_ocl::served::complex_"
    assert source.count(f'check_dtype(self, {mask}, "mm");') == 2
    assert 'check_dtype(self, pytorch_ocl::served::bytes_, "nonzero");' in source
    assert 'check_dtype(out, pytorch_ocl::served::integers_, "eye");' in source
    assert '#include "ops/dtypes.hpp"' in source


def test_layouts(workspace):
    workspace.family("nested", "layout: NestedTensor\nshared: [add.Tensor]\nfunctions: [to_padded_tensor]")
    texts = workspace.generate()
    assert "OCL_REGISTER(NestedTensorPrivateUse1)" in code(texts, "nested")
    assert "at::native::NestedTensor_add_Tensor(" in code(texts, "nested")
    assert "pytorch_ocl::nested::to_padded_tensor(" in code(texts, "nested")
    assert "namespace pytorch_ocl::nested {" in texts["functions/nested.h"]
    assert names(texts) == set() and json.loads(texts["operators.json"])["layouts"] == [
        ["NestedTensor", "add.Tensor"],
        ["NestedTensor", "to_padded_tensor"],
    ]


def test_families_can_be_compiled_as_one(workspace):
    """Several register the same function, each for its layout, and name it alike."""
    workspace.family("index", "functions: [select.int]")
    workspace.family("nested", "layout: NestedTensor\nfunctions: [select.int]")
    texts = workspace.generate()
    for family in ("index", "nested"):
        body = code(texts, family).split(f"namespace at::register_{family} {{\n")[1]
        assert "wrapper_OCL_int_select(" in body.split(f"}} // namespace at::register_{family}\n")[0]


def test_symint(workspace):
    workspace.family("memory", "functions: [{name: empty.memory_format, symint: true}, empty_strided]")
    header = workspace.generate()["functions/memory.h"]
    assert "empty_memory_format_symint(c10::SymIntArrayRef size" in header
    assert "empty_strided(at::IntArrayRef size" in header


def test_variants(workspace):
    workspace.family("activation", "functions: [{name: gelu, variants: true}]")
    texts = workspace.generate()
    assert names(texts) == {"gelu", "gelu_", "gelu.out"}
    assert "at::_copy_from_and_resize" in code(texts, "activation")


def test_optional(workspace):
    workspace.family("gemm", "structured: [mm.out, mm.from_the_future]\noptional: [mm.from_the_future]")
    assert names(workspace.generate()) == {"mm", "mm.out"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("structured: [mm.outt]", "structured: mm.outt: no such function in this torch; did you mean mm, mm.out"),
        ("shared: [nothing]", "shared: nothing: no such function"),
        ("structured: [mm]", "structured: mm: name the out overload, mm.out"),
        ("structured: [nonzero.out]", "not a structured function"),
        ("shared: [mm.out]", "CPU and CUDA share no host code (CPU: mm_out_cpu, CUDA: mm_out_cuda)"),
        ("shared: [zeros_like]", "composite and needs no registration"),
        ("functions: [linear]", "CompositeImplicitAutograd"),
        ("functions: [{name: topk, gard: false}]", "unknown option 'gard'; known are: composite, device_check"),
        ("functions: [{name: topk, guard: 1}]", "option guard must be true or false"),
        ("functions: [{name: nonzero.out, variants: true}]", "variants needs the functional overload"),
        ("functions: [topk, topk]\nstructured: [topk.values]", "registered already by operators/bad.yaml"),
        ("dtypes: [half]\nfunctions: [topk]", "dtypes: expected a list of bool, bytes, integers, floating, complex"),
        ("functions: [{name: topk, dtypes: floating}]", "topk: dtypes: expected a list of"),
        ("layout: Jagged", "layout: expected one of NestedTensor, Sparse, SparseCsr"),
        ("layout: Sparse\nshared: [cumsum]", "shared: cumsum: PyTorch has no host code for Sparse"),
        ("functons: []", "unknown key 'functons'"),
        ("functions: topk", "functions: expected a list"),
        ("functions: [3]", "expected a name, or a mapping"),
        ("[1, 2]", "expected a mapping"),
        ("a: b: c", "not valid yaml"),
        ("optional: [mm.out]", "optional: mm.out: not in any list"),
        ("exclude: [tan]", "exclude: tan: no row"),
        ("stubs: {no_such_stub: sin}", "stubs: no_such_stub: no header in ATen/native declares this stub"),
        ("stubs: {sin_stub: sine}", "stubs: sin_stub: no table has a row sine"),
    ],
)
def test_refused(workspace, text, message):
    workspace.family("bad", text)
    problems = workspace.problems()
    assert any(message in problem for problem in problems), problems
    assert all(problem.startswith("operators/bad.yaml") for problem in problems)


def test_all_problems_at_once(workspace):
    workspace.family("a", "shared: [nothing]")
    workspace.family("b", "structured: [mm]")
    assert len(workspace.problems()) == 2


def test_table_syntax(tmp_path):
    table = tmp_path / "t.inc"
    table.write_text(
        "#define ROW(...) \\\n  ROW(continued)\n// ROW(comment)\n/* ROW(block)\nROW(block2) */\n"
        '  ROW(a, "x",\n      "y")\nROW(b)\n#undef ROW\n'
    )
    assert load_table("pointwise", table).rows == ("a", "b")


def test_table_refuses_doubles_and_absence(workspace):
    workspace.rows("reduce", "sum", "sum")
    assert workspace.problems() == ["reduce_table.inc: sum: row defined twice"]
    workspace.tables["reduce"].unlink()
    assert "no such table" in workspace.problems()[0]


def test_unchanged_files_keep_their_time_and_old_ones_go(workspace, tmp_path):
    output = tmp_path / "generated"
    arguments = ["--operators", str(tmp_path / "operators"), "--output", str(output)]
    arguments += [word for kind, path in workspace.tables.items() for word in ("--table", f"{kind}={path}")]
    workspace.family("gemm", "structured: [mm.out, addmm.out]")
    assert generate.main(arguments) == 0
    kept, gone = output / "structured/mm_out.h", output / "structured/addmm_out.h"
    os.utime(kept, (1, 1))
    assert gone.exists()
    workspace.family("gemm", "structured: [mm.out]")
    assert generate.main(arguments) == 0
    assert kept.stat().st_mtime == 1 and not gone.exists()


def test_error_exit(workspace, tmp_path, capsys):
    workspace.family("gemm", "structured: [mm.outt]")
    assert generate.main(["--operators", str(tmp_path / "operators"), "--output", str(tmp_path / "o")]) == 1
    assert "codegen: error: operators/gemm.yaml: structured: mm.outt" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
