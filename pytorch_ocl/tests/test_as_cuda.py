# SPDX-License-Identifier: MIT
"""Programs that say "cuda": eight written for CUDA, run unchanged, and what is replaced, name by name. Each in a
process of its own, for what as_cuda replaces holds for the process."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="programs that say cuda have a CUDA device here")
GLOO = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="PyTorch without Gloo")
SCRIPTS = pathlib.Path(__file__).parent / "cuda_scripts"


def run(*command, expect=0, **environment):
    """Output of Python with these arguments."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTORCH_OCL_FALLBACK": "error", "TORCH_CPP_LOG_LEVEL": "ERROR", **environment},
    )
    assert done.returncode == expect, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def check(program, expect=0):
    return run("-c", "import pytorch_ocl.as_cuda, torch\n" + program, expect=expect)


DDP = pytest.param("ddp", marks=[GLOO, pytest.mark.whole])  # test_distributed.py has jobs of that kind


@pytest.mark.parametrize("name", ["gpt", "imagenet", "gan", "speech", "diffusion", "ppo", "translation", DDP])
def test_programs_run_unchanged(name, tmp_path):
    arguments = {
        "gpt": [tmp_path],
        "imagenet": [tmp_path, "--seed", 1],
        "ddp": [tmp_path / "checkpoint.pt", "--dist-url", (tmp_path / "rendezvous").as_uri()],
    }.get(name, [])
    output = run("-W", "ignore", "-m", "pytorch_ocl", "run", SCRIPTS / f"{name}.py", *arguments)
    assert "->" in output
    if name == "imagenet":
        again = run(
            "-W",
            "ignore",
            "-m",
            "pytorch_ocl",
            "run",
            SCRIPTS / "imagenet.py",
            tmp_path,
            "--resume",
            tmp_path / "checkpoint.pth.tar",
            "--epochs",
            1,
        )
        assert "loaded checkpoint (epoch 2)" in again
        run("-W", "ignore", "-m", "pytorch_ocl", "run", SCRIPTS / "imagenet.py", tmp_path, "--seed", 1, "--gpu", 0)


def test_nothing_happens_without_the_import():
    run(
        "-c",
        "import torch, pytorch_ocl\n"
        "assert not torch.cuda.is_available() and torch.device('cuda').type == 'cuda'\n"
        "assert torch.device is type(torch.device('cpu')) and torch.device('ocl').type == 'ocl'\n"
        "assert 'pytorch_ocl.as_cuda' not in __import__('sys').modules",
    )


def test_devices_and_factories():
    check("""
d = torch.device("cuda:0")
assert d.type == "cuda" and d == torch.device("cuda", 0) == torch.device(type="cuda", index=0)
assert isinstance(d, torch.device) and not isinstance("cuda", torch.device)
assert torch.device("cpu").type == "cpu" and torch.device("meta").type == "meta"
x = torch.zeros(2, device="cuda")
like = [torch.ones_like(x.cpu(), device="cuda"), torch.rand(2, device=d), torch.as_tensor([1.0], None, "cuda"),
        torch.tensor([1.0], device="cuda"), x.cpu().new_zeros(2, device="cuda"), torch.arange(3, device="cuda"),
        torch.zeros(2, device=0), torch.fft.fftfreq(4, device="cuda"), torch.zeros(2).cuda(), torch.zeros(2).to("cuda"),
        torch.zeros(2).to(device="cuda", dtype=torch.half), torch.zeros(2).cuda(0), torch.zeros(2).cuda("cuda:0"),
        torch.nn.Linear(2, 2, device="cuda").weight, torch.nn.Linear(2, 2).to("cuda").weight,
        torch.nn.Linear(2, 2).cuda(0).weight, torch.zeros(2).untyped_storage().cuda(),
        torch.zeros(2).type(torch.cuda.HalfTensor), torch.zeros(2).type("torch.cuda.LongTensor"),
        torch.cuda.FloatTensor([1, 2]), torch.nn.utils.rnn.pack_sequence([torch.zeros(2, 1)]).to("cuda").data]
assert all(each.is_cuda and each.device.type == "cuda" for each in like)
assert like[-4].dtype == torch.float16 and not torch.zeros(2).is_cuda and isinstance(x, torch.cuda.FloatTensor)
with torch.device("cuda"):
    assert torch.zeros(2).is_cuda
torch.set_default_device("cuda")
assert torch.zeros(2).is_cuda and torch.get_default_device().type == "cuda"
torch.set_default_device("cpu")
import copy, pickle
assert pickle.loads(pickle.dumps(d)) == copy.deepcopy(d) == d and pickle.loads(pickle.dumps(x)).is_cuda
g = torch.Generator(device="cuda").manual_seed(1)
assert g.device.type == "cuda" and isinstance(g, torch.Generator)
assert torch.randn(2, generator=g, device="cuda").is_cuda
for bad in ("cuda:99", "cuda:x"):
    try:
        torch.zeros(1, device=bad)
    except RuntimeError:
        continue
    raise AssertionError(bad)
try:
    torch.zeros(1).cuda("cpu")
except ValueError as error:
    assert "must be cuda device" in str(error)
""")


def test_amp():
    check("""
from torch.cuda.amp import custom_bwd, custom_fwd
class Double(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx, x):
        assert not torch.is_autocast_enabled() or x.dtype == torch.float16
        return x * 2
    @staticmethod
    @custom_bwd
    def backward(ctx, g):
        return g * 2
w = torch.randn(4, 4, device="cuda", requires_grad=True)
for context in (torch.autocast("cuda"), torch.cuda.amp.autocast(),
                torch.amp.autocast(device_type="cuda", dtype=torch.float16),
                torch.autocast(device_type=w.device.type, dtype=torch.float16)):
    assert not torch.is_autocast_enabled()
    with context:
        assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        y = w @ w
        assert y.dtype == torch.float16 == torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda")
        Double.apply(y).float().sum().backward()
for scaler in (torch.cuda.amp.GradScaler(), torch.amp.GradScaler("cuda"), torch.GradScaler(),
               torch.amp.GradScaler(device="cuda")):
    assert scaler.is_enabled() and scaler.scale(w.sum()).is_cuda
""")


def test_module():
    check("""
c = torch.cuda
assert c.is_available() and c.device_count() >= 1 and c.current_device() == 0 and c.get_device_name("cuda:0")
p = c.get_device_properties(0)
assert p.total_memory > 0 and p.multi_processor_count > 0 and len(c.get_device_capability(torch.device("cuda"))) == 2
x = torch.zeros(1 << 20, device="cuda")
assert c.memory_allocated(0) >= 4 << 20 and c.memory_stats("cuda")["allocated_bytes.all.current"] >= 4 << 20
assert c.memory.max_memory_allocated() >= 4 << 20 and "allocated" in c.memory_summary().lower()
with c.device(0), c.device("cuda:0"), c.stream(c.Stream(device="cuda:0")), c.nvtx.range("step"):
    e = c.Event(enable_timing=True); e.record(); e.synchronize()
assert isinstance(c.current_stream(), torch.Stream) and e.query()
c.manual_seed_all(3); a = torch.rand(4, device="cuda"); c.manual_seed(3)
assert torch.equal(a, torch.rand(4, device="cuda"))
with torch.random.fork_rng(devices=[0]):
    torch.rand(2, device="cuda")
torch.backends.cudnn.benchmark = True
assert torch.backends.ocl.benchmark and torch.backends.cudnn.benchmark
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = True
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    (x + 1).sum().item()
assert any(each.self_device_time_total > 0 for each in prof.key_averages()) or torch.__version__ < "2.12"
""")


def test_what_pytorch_sees_is_its_own_device(tmp_path):
    (tmp_path / "program.py").write_text("""
import torch
x = torch.randn(4, 4, device="cuda", requires_grad=True)
m = torch.nn.DataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[0])
m(x).sum().backward()
f = torch.compile(lambda x: x.sin() + torch.ones(4, device="cuda"), backend="aot_eager")
assert torch.allclose(f(x), x.sin() + 1)
@torch.jit.script
def g(x):
    return torch.zeros_like(x) + torch.ones(4)
assert g(torch.zeros(4)).sum() == 4
o = torch.optim.AdamW([x], fused=True); x.sum().backward(); o.step()
assert torch.utils.checkpoint.checkpoint(lambda t: t * 2, x, use_reentrant=True).is_cuda
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4, 2)), batch_size=2, pin_memory=True)
assert all(b.cuda(non_blocking=True).is_cuda for b, in loader)
""")
    run("-m", "pytorch_ocl", "run", tmp_path / "program.py")


def test_files(tmp_path):
    check(f"""
file = {str(tmp_path / "x.pt")!r}
torch.save({{"x": torch.ones(3, device="cuda:0")}}, file)
for where in (None, "cuda", "cuda:0", torch.device("cuda"), {{"cuda:0": "cuda:0"}}, {{"cuda:0": "cpu"}}, "cpu",
              lambda storage, location: storage):
    x = torch.load(file, map_location=where)["x"]
    assert x.is_cuda == (where not in ("cpu", {{"cuda:0": "cpu"}}) and not callable(where) or where is None), where
raw = open(file, "rb").read()
assert b"ocl:0" in raw
import zipfile, io
source, target = zipfile.ZipFile(io.BytesIO(raw)), io.BytesIO()
with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
    for name in source.namelist():
        content = source.read(name)
        if name.endswith("data.pkl"):  # as a file from a CUDA device has it: BINUNICODE has the length before the text
            content = content.replace(b"X\\x05\\x00\\x00\\x00ocl:0", b"X\\x06\\x00\\x00\\x00cuda:0")
            assert b"cuda:0" in content
        out.writestr(name, content)
target.seek(0)
assert torch.load(target)["x"].is_cuda
""")


@pytest.mark.parametrize(
    "program, message",
    [
        ("torch.cuda.MemPool()", "one pool of memory"),
        ("torch.cuda.jiterator.create_jit_fn('')", "torch.ocl.compile_kernel"),
        ("torch.cuda.cudart().cudaProfilerStart()", "no CUDA runtime"),
    ],
)
def test_what_cannot_be_expressed_says_so(program, message):
    assert message in check(program, expect=1)


def test_graphs():
    check("""
x = torch.zeros(100, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(torch.cuda.Stream()):
    x += 1
torch.cuda.synchronize()
with torch.cuda.graph(cuda_graph=graph, pool=torch.cuda.graph_pool_handle(), stream=torch.cuda.Stream()):
    assert torch.cuda.is_current_stream_capturing()
    x *= 2
assert isinstance(graph, torch.cuda.graphs.CUDAGraph) and x[0].item() == 1
graph.replay(), graph.replay()
assert x[0].item() == 4
layer = torch.cuda.make_graphed_callables(torch.nn.Linear(4, 2).cuda(), (torch.randn(3, 4, device="cuda"),))
y = torch.randn(3, 4, device="cuda")
torch.testing.assert_close(layer(y), torch.nn.functional.linear(y, layer.weight, layer.bias))
layer(y).sum().backward()
torch.testing.assert_close(layer.weight.grad, y.sum(0).expand(2, 4))
""")


@GLOO
def test_nccl_means_the_groups_of_the_device():
    check("""
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
assert dist.is_nccl_available()
for backend in ("nccl", dist.Backend.NCCL, "cpu:gloo,cuda:nccl", "cuda:nccl"):
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))
    group = dist.new_group([0], backend="nccl")
    for x in (torch.ones(2, device="cuda"), torch.ones(2, device="cuda", dtype=torch.bfloat16)):
        dist.all_reduce(x, group=group)
        dist.broadcast(x, 0)
        assert x.sum() == 2
    assert dist.new_subgroups(group_size=1, backend="nccl")[0].size() == 1
    for mesh in (init_device_mesh("cuda", (1,)), DeviceMesh("cuda", [0])):
        assert mesh.device_type == "ocl"
    dist.destroy_process_group()
""")


def test_dynamo_may_ask_about_what_is_refused():
    check("""
assert not isinstance(3, torch.cuda.MemPool)  # asked of values that Dynamo meets, since PyTorch 2.14
import torch._dynamo  # reads torch.cuda.use_mem_pool.__wrapped__, as well
class Scale:
    factor = 2
assert torch.compile(lambda x, s: x * s.factor, backend="eager")(torch.ones(3, device="cuda"), Scale()).sum() == 6
try:
    torch.cuda.use_mem_pool.__wrapped__(None)
except RuntimeError as error:
    assert "torch.cuda.use_mem_pool is not available" in str(error)
else:
    raise AssertionError("not refused")
""")


def test_cuda_extensions_are_refused():
    pytest.importorskip("setuptools", reason="torch.utils.cpp_extension needs it")
    for program in (
        "CUDAExtension('x', ['x.cu'])",
        "load('x', ['x.cu'])",
        "load_inline('x', cpp_sources='', cuda_sources=' ')",
    ):
        assert "torch.ocl.compile_kernel" in check(f"import torch.utils.cpp_extension as e\ne.{program}", expect=1)


def test_run_starts_modules_and_passes_arguments(tmp_path):
    (tmp_path / "there.py").write_text(
        "import sys, torch, helper\nprint(sys.argv[1:], __name__, torch.cuda.is_available())\nsys.exit(3)"
    )
    (tmp_path / "helper.py").write_text("")
    assert "['-x', '--help'] __main__ True" in run(
        "-m", "pytorch_ocl", "run", tmp_path / "there.py", "-x", "--help", expect=3
    )
    output = subprocess.run(
        [sys.executable, "-m", "pytorch_ocl", "run", "-m", "there", "a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert output.returncode == 3 and "['a'] __main__ True" in output.stdout
