# SPDX-License-Identifier: MIT
"""Programs that do not use the package, and processes with another accelerator. Each test starts Python with the
package installed (its entry point in a folder) and imports no more than it says."""

import pathlib
import re
import sys

import pytest
import pytorch_ocl_autoload
import torch
from processes import run_python, start_python

PROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"
OTHER = pytorch_ocl_autoload._cuda() and torch.backends.cuda.is_built()
alone = pytest.mark.skipif(OTHER, reason="PyTorch has CUDA here: the package does not load by itself")
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA beside OpenCL")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def distribution(folder, name, entry_points):
    """Makes an installed distribution of that name with only these entry points of torch.backends."""
    info = folder / f"{name}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{entry_points}\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The folder that is first on the path of what is started: with the project's entry point, and settings unset."""
    group = re.search(
        r'^\[project.entry-points."torch.backends"\]\n(ocl = .*)', PROJECT.read_text(encoding="utf-8"), re.M
    )
    distribution(tmp_path, "pytorch_ocl", group[1].replace('"', ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("PYTORCH_OCL_AUTOLOAD", "TORCH_DEVICE_BACKEND_AUTOLOAD"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def run_beside(code, **environment):
    """What a script prints that imports only torch; warnings are errors, but for the one of processes with both."""
    quiet = "import warnings; warnings.simplefilter('error'); warnings.filterwarnings('ignore', 'pytorch_ocl beside ')"
    return run_python(code, imports=f"{quiet}; import torch", **environment)


LOADED = "print(hasattr(torch, 'ocl'), 'pytorch_ocl' in __import__('sys').modules)"


@alone
def test_import_torch_is_enough_without_another_accelerator(installed):
    assert run_beside(f"{LOADED}; print(torch.ones(3, device='ocl').sum().item())") == "True True\n3.0"


@pytest.mark.parametrize("value, loaded", [("0", "False False"), ("1", "True True")])
def test_the_switch(installed, value, loaded):
    assert run_beside(LOADED, PYTORCH_OCL_AUTOLOAD=value) == loaded


def test_an_import_always_loads(installed):
    code = f"{LOADED}; import pytorch_ocl; print(torch.ones(3, device='ocl').sum().item())"
    assert run_beside(code, PYTORCH_OCL_AUTOLOAD="0") == "False False\n3.0"
    out = run_python(
        "print(sys.modules['torch'].ones(3, device='ocl').sum().item())",
        imports="import pytorch_ocl, sys",
        PYTORCH_OCL_AUTOLOAD="0",
    )
    assert out == "3.0"


@pytest.mark.parametrize("name", ["aaa", "zzz"])  # PyTorch calls entry points in the order of the path's listing
def test_another_package_with_a_device_goes_first(installed, name):
    (installed / f"{name}.py").write_text("import torch\ndef load(): torch.utils.rename_privateuse1_backend('other')\n")
    distribution(installed, name, f"other = {name}:load")
    assert run_beside(f"{LOADED}; print(torch.device('other:0'))") == "False False\nother:0"


@pytest.mark.parametrize(
    "kind, files, environment, expected",
    [
        ("cuda", ["nvidia0"], {}, "cuda"),
        ("cuda", ["nvidia0"], {"CUDA_VISIBLE_DEVICES": "1,0"}, "cuda"),
        ("cuda", ["nvidia0"], {"CUDA_VISIBLE_DEVICES": ""}, ""),
        ("cuda", ["nvidia0"], {"CUDA_VISIBLE_DEVICES": "-1"}, ""),
        ("cuda", ["nvidiactl"], {}, ""),
        ("cuda", ["kfd"], {}, ""),
        ("xpu", ["vendor"], {}, "xpu"),
        ("xpu", ["nvidia0"], {}, ""),
        ("mtia", [], {}, "mtia"),  # whoever has it registered it
        ("mps", [], {}, ""),
        ("ocl", ["nvidia0"], {}, ""),
    ],
)
def test_which_accelerators_are_there(tmp_path, monkeypatch, kind, files, environment, expected):
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind, 0))
    monkeypatch.setattr(pytorch_ocl_autoload, "NVIDIA", (f"{tmp_path}/nvidia[0-9]*",))
    monkeypatch.setattr(pytorch_ocl_autoload, "INTEL", (f"{tmp_path}/vendor",))
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert pytorch_ocl_autoload.other_accelerator() == expected


def test_no_accelerator_is_no_other(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    assert pytorch_ocl_autoload.other_accelerator() == ""


def test_loading_the_backend_takes_a_small_part_of_importing_torch(installed):
    """CPU time of each, the least of three processes. What counts is below 50 ms; torch itself takes over a second."""
    code = """import time
start = time.process_time()
import torch
torch_only = time.process_time()
import pytorch_ocl
print(torch_only - start, time.process_time() - torch_only)"""
    times = [run_python(code, imports="pass", PYTORCH_OCL_AUTOLOAD="0").split() for _ in range(3)]
    alone, backend = (min(float(each[i]) for each in times) for i in (0, 1))
    assert backend < alone / 10, times


@linux
def test_importing_torch_loads_no_driver_and_opens_no_device(installed):
    code = """
import os, re
drivers = 'libintelocl|libpocl|libnvidia-|libcuda[.]so|libamdocl|RusticlOpenCL|libigdrcl'
print(sorted(set(re.findall(drivers, open('/proc/self/maps').read()))))
links = []
for name in os.listdir('/proc/self/fd'):
    try: links.append(os.readlink('/proc/self/fd/' + name))
    except OSError: pass
print([link for link in links if link.startswith('/dev/') and link not in ('/dev/null', '/dev/urandom')])
print(len(os.listdir('/proc/self/task')))"""
    assert run_beside(code) == run_beside(code, PYTORCH_OCL_AUTOLOAD="0")  # PyTorch's own libraries and threads


@alone
@pytest.mark.parametrize(
    "before",
    [
        "",
        "torch.ones(3, requires_grad=True).mul(2).sum().backward()",
        "torch.manual_seed(1); torch.accelerator.is_available()",
    ],
)
def test_a_forked_child_may_use_the_device(installed, before):
    out = run_beside(f"""import os
{before}
if os.fork() == 0:
    x = torch.ones(3, requires_grad=True, device='ocl')
    x.mul(2).sum().backward()
    print(x.grad.tolist(), flush=True)
    os._exit(0)
print(os.wait()[1])""")
    assert sorted(out.splitlines()) == ["0", "[2.0, 2.0, 2.0]"]


BACKWARD = (
    "x = torch.ones(3, requires_grad=True, device='{}'); x.mul(2).sum().backward(); print(x.grad.tolist(), flush=True)"
)


@alone
def test_backward_passes_on_the_cpu_before_and_after_a_fork(installed):
    out = run_beside(f"""import os
{BACKWARD.format("cpu")}
print(torch.ocl.is_initialized(), flush=True)
if os.fork() == 0:
    {BACKWARD.format("cpu")}
    os._exit(0)
print(os.wait()[1])""")
    assert out.splitlines() == ["[2.0, 2.0, 2.0]", "False", "[2.0, 2.0, 2.0]", "0"]


@alone
@pytest.mark.parametrize(
    "before, loaded",
    [
        ("torch.compile(lambda x: x.mul(2), backend='eager')(torch.ones(3))", "False"),
        ("torch.accelerator.current_stream()", "False"),
        ("torch.ones(3, device='ocl')", "True"),
        (BACKWARD.format("ocl").replace("print", "(lambda *a, flush: 0)"), "True"),
    ],
)
def test_backward_passes_on_the_cpu_in_a_child_of_what_met_a_device(installed, before, loaded):
    """And on a device as long as the parent has not used one."""
    out = run_beside(f"""import os
{before}
print(torch.ocl.is_initialized(), flush=True)
if os.fork() == 0:
    {BACKWARD.format("cpu")}
    try:
        {BACKWARD.format("ocl")}
    except RuntimeError as error:
        print("Cannot re-initialize OpenCL" in str(error), flush=True)
    os._exit(0)
print(os.wait()[1])""")
    child = "True" if loaded == "True" else "[2.0, 2.0, 2.0]"
    assert out.splitlines() == [loaded, "[2.0, 2.0, 2.0]", child, "0"]


@alone
def test_what_cpu_programs_ask_starts_no_threads_of_devices(installed):
    out = run_beside(f"""import os
torch.accelerator.memory_allocated(), torch.ocl.memory_stats()
with torch.random.fork_rng(devices=[0], device_type='ocl'): torch.manual_seed(1)
print(torch.ocl.is_initialized(), flush=True)
if os.fork() == 0:
    {BACKWARD.format("cpu")}
    {BACKWARD.format("ocl")}
    os._exit(0)
print(os.wait()[1])""")
    assert out.splitlines() == ["False", "[2.0, 2.0, 2.0]", "[2.0, 2.0, 2.0]", "0"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the engine has started with CUDA's devices")
def test_the_backend_may_come_after_a_backward_pass(installed):
    out = run_beside(
        f"{BACKWARD.format('cpu')}; import pytorch_ocl; {BACKWARD.format('ocl')}", PYTORCH_OCL_AUTOLOAD="0"
    )
    assert out.splitlines() == ["[2.0, 2.0, 2.0]"] * 2


def test_the_first_backward_passes_of_several_threads(installed):
    out = run_beside(
        f"""import threading
def work():
    {BACKWARD.format("ocl").replace("; print", "; grads.append").replace(", flush=True", "")}
grads, threads = [], [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(grads)""",
        PYTORCH_OCL_AUTOLOAD="1",
    )
    assert out == str([[2.0] * 3] * 4)


def test_workers_of_a_data_loader(installed):
    code = (
        "data = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2)\n"
        "print([batch.tolist() for batch in data])"
    )
    assert run_beside(code) == "[[0, 1, 2, 3], [4, 5, 6, 7]]"


COLLECTIVES = """
import torch.distributed as dist, datetime
def main(rank, size, folder):
    dist.init_process_group(init_method=f'file://{folder}/store', rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=120))
    x = torch.full((3,), rank + 1.0)
    dist.all_reduce(x)
    everyone = [None] * size
    dist.all_gather_object(everyone, rank)
    dist.barrier()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    model(torch.full((1, 2), rank + 1.0)).sum().backward()
    print(x.tolist(), everyone, model.module.weight.grad.tolist(), flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.skipif(OTHER, reason="PyTorch takes NCCL for its default")
@pytest.mark.parametrize("size", [1, 2])
def test_process_groups_on_the_cpu_need_no_backend(installed, size):
    imports = f"import torch{COLLECTIVES}"
    processes = [start_python(f"main({rank}, {size}, {str(installed)!r})", imports=imports) for rank in range(size)]
    total = size * (size + 1) / 2
    for process in processes:
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert out.strip() == f"{[total] * 3} {list(range(size))} {[[total / size] * 2]}"


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch moves the model to CUDA")
@pytest.mark.parametrize("given", ["", ", device_ids=[]"])
def test_data_parallel_on_the_cpu(installed, given):
    out = run_beside(
        f"model = torch.nn.DataParallel(torch.nn.Linear(2, 1){given})\n"
        "print(model(torch.ones(4, 2)).device, model.device_ids, next(model.parameters()).device)\n"
        "print(list(model.state_dict()))"
    )
    assert out == "cpu [] cpu\n['module.weight', 'module.bias']"


def test_a_library_that_is_missing_breaks_nothing_where_warnings_are_errors(installed):
    hide = (
        "import pathlib; exists = pathlib.Path.exists\n"
        "pathlib.Path.exists = lambda self: 'pytorch_ocl_torch' not in self.name and exists(self)\n"
    )
    out = run_python(
        "print(torch.ones(2).sum().item())",
        imports=f"{hide}import warnings; warnings.simplefilter('error')\nimport torch",
        PYTORCH_OCL_AUTOLOAD="1",
    )
    assert out == "2.0"


def test_a_driver_without_devices_leaves_cpu_programs_alone(installed):
    code = (
        "torch.manual_seed(1); x = torch.ones(3, requires_grad=True); x.sum().backward()\n"
        "print(torch.nn.DataParallel(torch.nn.Linear(2, 1))(torch.ones(4, 2)).device, x.grad.tolist())"
    )
    assert run_beside(code, OCL_VISIBLE_DEVICES="nosuch", CUDA_VISIBLE_DEVICES="") == "cpu [1.0, 1.0, 1.0]"


def test_what_another_accelerator_loses_is_told_once(installed):
    (installed / "sitecustomize.py").write_text(
        "import pytorch_ocl_autoload as a; a.other_accelerator = lambda: 'cuda'\n"
    )
    out = run_python(
        """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter('always')
    import pytorch_ocl
    import pytorch_ocl
print([str(w.message) for w in seen if 'cuda' in str(w.message)])""",
        imports="import torch",
    )
    assert out.count("backward passes on cuda tensors raise") == 1, out


@cuda
def test_cuda_trains_with_the_package_installed(installed):
    out = run_beside(
        f"{LOADED}\n{BACKWARD.format('cuda')}\nprint(torch.accelerator.current_accelerator())\n"
        "data = torch.utils.data.DataLoader(torch.arange(8.), batch_size=4, num_workers=2, pin_memory=True)\n"
        "model = torch.nn.Linear(4, 1).cuda()\n"
        "for batch in data: model(batch.cuda(non_blocking=True)).sum().backward()\n"
        "print(model.weight.grad.tolist())"
    )
    assert out.splitlines() == ["False False", "[2.0, 2.0, 2.0]", "cuda", "[[4.0, 6.0, 8.0, 10.0]]"]


@cuda
def test_a_fork_may_use_cuda_with_the_package_installed(installed):
    out = run_beside(
        f"import os\nif os.fork() == 0:\n    {BACKWARD.format('cuda')}\n    os._exit(0)\nprint(os.wait()[1])"
    )
    assert sorted(out.splitlines()) == ["0", "[2.0, 2.0, 2.0]"]


@cuda
@pytest.mark.parametrize("ask", [{"imports": "import torch, pytorch_ocl"}, {"PYTORCH_OCL_AUTOLOAD": "1"}])
def test_both_in_one_process(installed, ask):
    # What docs/beside.md says of such a process.
    out = run_python(
        f"""
{BACKWARD.format("ocl")}
x = torch.ones(3, device='cuda')
print((x * 2).sum().item(), x.to('ocl').add(1).to('cuda').tolist(), torch.accelerator.current_accelerator())
try:
    {BACKWARD.format("cuda")}
except RuntimeError as error:
    print('opt_parent_stream' in str(error))""",
        **{"imports": "import torch", **ask},
    )
    assert out.splitlines() == ["[2.0, 2.0, 2.0]", "6.0 [2.0, 2.0, 2.0] ocl", "True"]


@cuda
def test_pinned_memory_is_known_as_such(installed):
    code = "import pytorch_ocl; x = torch.ones(2, device='ocl'); print(torch.empty(4, pin_memory=True).is_pinned())"
    assert run_beside(code) == "True"
