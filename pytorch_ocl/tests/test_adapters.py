# SPDX-License-Identifier: MIT
"""Libraries that choose a device themselves. Each program runs in a process of its own, where a simulated GPU
stands for one (DLPRIM_SIMULATE), or the CPU runtime for itself; libraries that are not installed are skipped."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch
from pytorch_ocl.adapters import chosen_automatically

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="libraries that find CUDA choose it")


def run(program, needs=None, **environment):
    """Runs a program; skips where the library is not installed."""
    if needs is not None and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **environment},
    )
    if needs is not None and "\nModuleNotFoundError: No module named" in done.stderr:
        pytest.skip(f"{needs} lacks a package that it needs: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


GPU = {"DLPRIM_SIMULATE": "gpu=1"}
FIT = """
import torch
def fit(accelerator):
    model = torch.nn.Linear(4, 2); optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, in loader:
        with accelerator.autocast():
            y = model(x)
        assert x.device.type == y.device.type == accelerator.device.type
        accelerator.backward(y.float().square().mean()); optimizer.step(); optimizer.zero_grad()
    return accelerator.device.type
"""


@pytest.mark.parametrize("precision", ["no", "fp16", "bf16"])
def test_accelerate(precision):
    program = (
        FIT
        + f"""
import accelerate
a = accelerate.Accelerator(mixed_precision={precision!r})
print(fit(a), a.scaler is not None and a.scaler.is_enabled())"""
    )
    assert run(program, "accelerate", **GPU).split() == ["ocl", str(precision == "fp16")]


def test_a_cpu_runtime_is_not_chosen():
    program = FIT + "import accelerate\nprint(fit(accelerate.Accelerator()))"
    assert run(program, "accelerate").strip() == ("cpu" if _first_is_cpu() else "ocl")
    assert run(program, "accelerate", ACCELERATE_TORCH_DEVICE="ocl:0").strip() == "ocl"
    assert run(program, "accelerate", **GPU, PYTORCH_OCL_ADAPTERS="0").strip() == "cpu"


def _first_is_cpu():
    return run("import torch; print(torch.ocl.get_device_properties(0).type)").strip() == "cpu"


def test_accelerate_counts_memory_for_automatic_maps():
    run(
        """
import torch
from accelerate import dispatch_model, infer_auto_device_map
from accelerate.utils import get_max_memory
assert get_max_memory()[0] > 0 and get_max_memory()["cpu"] > 0
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
where = infer_auto_device_map(model, max_memory=get_max_memory())
assert set(where.values()) == {0}, where
model = dispatch_model(model, where)
assert model(torch.ones(1, 4, device="ocl")).device.type == "ocl"
assert list(get_max_memory({"cpu": 5, 1: 2.5, 0: "1MB"}).items()) == [(0, 10**6), (1, 2.5), ("cpu", 5)]
""",
        "accelerate",
        **GPU,
    )


def test_transformers_pipeline_and_trainer():
    run(
        """
import tempfile, torch, transformers
config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2)
model = transformers.GPT2LMHeadModel(config)
class Pipe(transformers.Pipeline):
    def _sanitize_parameters(self, **options): return {}, {}, {}
    def preprocess(self, x): return {"input_ids": torch.tensor([[1, 2]])}
    def _forward(self, inputs): return self.model(**inputs)
    def postprocess(self, out): return out.logits.shape
pipe = Pipe(model=model, tokenizer=None)
assert pipe.device.type == "ocl" and pipe("text") == (1, 2, 32)
assert Pipe(model=model, tokenizer=None, device="cpu").device.type == "cpu"
data = [dict(input_ids=torch.arange(8), labels=torch.arange(8)) for _ in range(4)]
with tempfile.TemporaryDirectory() as folder:
    for precision in ({}, {"bf16": True}, {"fp16": True}):
        arguments = transformers.TrainingArguments(folder, per_device_train_batch_size=2, max_steps=2, report_to=[],
                                                   disable_tqdm=True, save_strategy="no", **precision)
        trainer = transformers.Trainer(model, arguments, train_dataset=data)
        trainer.train()
        assert trainer.model.device.type == "ocl" == trainer.args.device.type
""",
        "accelerate",
        **GPU,
    )


def test_transformers_offloaded_cache():
    run(
        """
import torch, transformers
config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=3, n_head=2,
                                 bos_token_id=1, eos_token_id=2)
model = transformers.GPT2LMHeadModel(config).to("ocl").eval()
tokens = torch.tensor([[3, 4, 5]], device="ocl")
plain, offloaded = (
    model.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0, cache_implementation=kind).tolist()
    for kind in (None, "offloaded")
)
assert plain == offloaded
""",
        "transformers",
    )


GENERATE = """
import torch, transformers
torch.manual_seed(0)
config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
model = transformers.LlamaForCausalLM(config).eval()
tokens = torch.randint(0, 64, (1, 5))
options = dict(max_new_tokens=9, min_new_tokens=9, do_sample=False, pad_token_id=0)
expected = model.generate(tokens, **options)
compiled = []
original = torch.compile
torch.compile = lambda *a, **k: compiled.append(k) or original(*a, **k)
model, tokens = model.to("ocl"), tokens.to("ocl")
for more in ({}, dict(cache_implementation="static", disable_compile=True), dict(cache_implementation="static")):
    assert model.generate(tokens, **options, **more).cpu().equal(expected), more
    print(len(compiled))
"""


@pytest.mark.whole
def test_transformers_compiles_generation_with_static_caches():
    assert run(GENERATE, "transformers", **GPU).split() == ["0", "0", "1"]


@pytest.mark.whole
def test_transformers_compiles_nothing_on_cpu_runtimes():
    assert run(GENERATE, "transformers").split() == ["0", "0", str(int(not _first_is_cpu()))]


LIGHTNING = """
import torch, lightning as L
class Module(L.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 2)
    def training_step(self, batch, index):
        self.seen = batch[0].device.type
        return self.layer(batch[0]).float().square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
def train(**options):
    module = Module()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), batch_size=2)
    L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
              enable_model_summary=False, **options).fit(module, loader)
    return module.seen
"""


def test_lightning():
    assert run(
        LIGHTNING
        + """
assert train(accelerator="ocl", devices=1) == train(accelerator="ocl", devices=[0], precision="bf16-mixed") == "ocl"
strategy = L.pytorch.strategies.SingleDeviceStrategy(torch.device("ocl", 0))
assert train(strategy=strategy) == "ocl"
print(train(), L.Fabric(accelerator="auto").device.type)
""",
        "lightning",
    ).split() == (["cpu", "cpu"] if _first_is_cpu() else ["ocl", "ocl"])


def test_lightning_chooses_a_gpu():
    run(
        LIGHTNING
        + """
assert train(devices=1) == train(accelerator="gpu", devices=1, precision="16-mixed") == "ocl"
assert train(accelerator="cpu") == "cpu"
fabric = L.Fabric(accelerator="auto", devices=1, precision="16-mixed")
fabric.launch()
model, optimizer = fabric.setup(torch.nn.Linear(2, 2), torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1))
assert fabric.device.type == "ocl" == next(model.parameters()).device.type
""",
        "lightning",
        **GPU,
    )


def test_safetensors(tmp_path):
    run(
        f"""
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file, load_model, save_model
file = {str(tmp_path / "x.safetensors")!r}
x = {{"a": torch.arange(12.0).view(3, 4), "b": torch.ones(2, dtype=torch.bfloat16)}}
save_file({{name: value.to("ocl") for name, value in x.items()}}, file)
for device in ("ocl", "ocl:0", torch.device("ocl", 0)):
    got = load_file(file, device=device)
    assert all(got[name].device.type == "ocl" and torch.equal(got[name].cpu(), x[name]) for name in x)
    with safe_open(file, framework="pt", device=device) as f:
        assert set(f.keys()) == set(x) and f.get_tensor("a").device.type == "ocl" and f.metadata() is None
        part = f.get_slice("a")
        assert part[1:].device.type == "ocl" and part.get_shape() == [3, 4] and torch.equal(part[1:].cpu(), x["a"][1:])
assert load_file(file)["a"].device.type == "cpu"
model = torch.nn.Linear(3, 2).to("ocl")
save_model(model, file)
load_model(torch.nn.Linear(3, 2).to("ocl"), file, device="ocl:0")
""",
        "safetensors",
    )


def test_torchvision_without_its_compiled_half():
    run(
        """
import torchvision, torch
assert torchvision.extension._has_ops()
boxes, scores = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9]]), torch.tensor([0.1, 0.2])
assert torch.jit.script(torchvision.ops.nms)(boxes, scores, 0.5).tolist() == [1]
x, region = torch.arange(16.0).view(1, 1, 4, 4), torch.tensor([[0.0, 0, 0, 3, 3]])
gradients = []
for device in ("cpu", "ocl"):
    kept = torchvision.ops.nms(boxes.to(device), scores.to(device), 0.5)
    assert kept.tolist() == [1] and kept.device.type == device
    image = x.detach().clone().to(device).requires_grad_(True)
    torchvision.ops.roi_align(image, region.to(device), (2, 2)).square().sum().backward()
    gradients.append(image.grad.cpu())
    with torch.inference_mode():
        assert torchvision.ops.roi_pool(x.to(device), region.to(device), 2).flatten().tolist() == [5, 7, 13, 15]
torch.testing.assert_close(*gradients)
""",
        "torchvision",
    )


@pytest.mark.parametrize(
    "needs, program",
    [
        ("stable_baselines3", "from stable_baselines3.common.utils import get_device as f; d = f('auto')"),
        ("fastai", "from fastai.torch_core import default_device as f; d = f(); assert f(False).type == 'cpu'"),
        (
            "sentence_transformers",
            "import torch; from sentence_transformers.util import get_device_name as f; d = torch.device(f())",
        ),
    ],
)
def test_others(needs, program):
    assert run(f"{program}\nprint(d.type)", needs, **GPU).strip() == "ocl"


def test_an_adapter_that_does_not_fit_leaves_the_library(tmp_path):
    (tmp_path / "fastai").mkdir()
    (tmp_path / "fastai/__init__.py").write_text("")
    (tmp_path / "fastai/torch_core.py").write_text("value = 3\n")
    run(
        """
import sys, warnings, torch
sys.path.insert(0, %r)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import fastai.torch_core
assert fastai.torch_core.value == 3 and "does not fit" in str(seen[-1].message)
assert "accelerate" not in sys.modules and "pytorch_ocl.adapters.accelerate" not in sys.modules
"""
        % str(tmp_path)
    )


def stub(folder, **modules):
    """Writes modules, "a__b" for a.b, for a program that begins with what is returned."""
    for name, text in modules.items():
        *parents, last = name.split("__")
        for depth in range(len(parents)):
            package = folder.joinpath(*parents[: depth + 1])
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
        folder.joinpath(*parents, f"{last}.py").write_text(text)
    return f"import sys, torch\nsys.path.insert(0, {str(folder)!r})\n"


CHOOSERS = {
    "whisper": "def load_model(name, device=None, in_memory=False): return str(device)\n",
    "torch_geometric__device": """
import torch
def device(device): return torch.device("cpu" if device == "auto" else device)
""",
    "pytorch_metric_learning__utils__common_functions": """
import torch
def use_cuda_if_available(): return torch.device("cpu")
""",
    "pykeen__utils": """
import torch
def resolve_device(device=None): return torch.device("cpu" if device is None or device == "gpu" else device)
""",
    "gluonts__torch__util": "def resolve_device(device): return 'cpu' if device == 'auto' else device\n",
    "pytorch_tabnet__utils": "def define_device(name): return 'cpu' if name == 'auto' else name\n",
    "ignite__distributed__comp_models__base": """
import torch
class _SerialModel:
    def device(self): return torch.device("cpu")
    def get_local_rank(self): return 0
""",
    "keras__src__backend__torch__core": """
DEFAULT_DEVICE = "cpu"
def get_device(): return DEFAULT_DEVICE
def _parse_device_input(name): return name.replace("gpu", "cuda")
""",
    "ultralytics__utils__torch_utils": """
import contextlib, logging
LOGGER, __version__, TORCH_VERSION = logging.getLogger("x"), "8", "2"
def parse_device(device=""): return "" if device is None else str(device).replace("cuda:", "")
def select_device(device="", newline=False, verbose=True): return f"theirs {device}"
def autocast(enabled, device="cuda"): raise RuntimeError("bfloat16 autocast requires CUDA")
""",
    "ultralytics__engine__trainer": """
import torch
class BaseTrainer:
    def __init__(self, device): self.device = torch.device(device)
    def _setup_train(self): self.scaler = torch.amp.GradScaler("cuda", enabled=True, init_scale=4.0)
""",
}
CHOICES = """
import whisper
from gluonts.torch.util import resolve_device as of_gluonts
from ignite.distributed.comp_models.base import _SerialModel
from keras.src.backend.torch.core import _parse_device_input, get_device
from pykeen.utils import resolve_device
from pytorch_metric_learning.utils.common_functions import use_cuda_if_available
from pytorch_tabnet.utils import define_device
from torch_geometric.device import device
from ultralytics.utils.torch_utils import select_device
print(whisper.load_model("tiny"), _SerialModel().device().type, get_device(), _parse_device_input("gpu:0"),
      define_device("auto"), device("auto"), use_cuda_if_available(), select_device(""), select_device("0"),
      resolve_device(), resolve_device("gpu"), of_gluonts("auto"))
assert resolve_device("cpu").type == of_gluonts("cpu") == "cpu"
assert whisper.load_model("tiny", "cpu") == define_device("cpu") == _parse_device_input("cpu") == "cpu"
assert device("cpu").type == "cpu"
"""


def test_choosers(tmp_path):
    """Stand-ins with the signatures of the versions that the adapters name."""
    program = stub(tmp_path, **CHOOSERS) + CHOICES
    assert run(program, **GPU).split() == "ocl ocl ocl ocl:0 ocl ocl ocl ocl:0 ocl:0 ocl ocl ocl".split()
    without = "None cpu cpu cuda:0 cpu cpu cpu theirs theirs 0 cpu cpu cpu".split()
    assert run(program, PYTORCH_OCL_ADAPTERS="0").split() == without


MACE = {
    "mace__tools__torch_tools": """
import logging, torch
def init_device(device_str): return torch.device("cuda" if "cuda" in device_str else "cpu")
""",
    "mace__tools__arg_parser": """
import argparse
def build_default_arg_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser
""",
}


def test_mace_takes_the_device(tmp_path):
    program = (
        stub(tmp_path, **MACE)
        + """
from mace.tools.torch_tools import init_device
from mace.tools.arg_parser import build_default_arg_parser
print(init_device(build_default_arg_parser().parse_args(["--device", "ocl"]).device), init_device("ocl:0"),
      init_device(build_default_arg_parser().parse_args([]).device), init_device("cuda"))
"""
    )
    assert run(program).split() == ["ocl:0", "ocl:0", "cpu", "cuda"]


SKRL = """
import torch
class PyTorch:
    def __init__(self): self._device = "cuda:0"
    @staticmethod
    def parse_device(device, validate=True): return torch.device("cpu" if device is None else device)
class config: torch = PyTorch()
"""


def test_skrl_takes_the_device(tmp_path):
    program = stub(tmp_path, skrl=SKRL) + "from skrl import config\nprint(config.torch.parse_device(None))\n"
    named = "config.torch._device = 'ocl:0'\nprint(config.torch.parse_device(None), config.torch.parse_device('cpu'))"
    automatic = "ocl:0" if chosen_automatically() else "cpu"
    assert run(program + named).split() == [automatic, "ocl:0", "cpu"]
    assert run(program, **GPU).split() == ["ocl:0"]


def test_ultralytics_takes_the_device(tmp_path):
    program = stub(tmp_path, **CHOOSERS)
    run(
        program
        + """
from ultralytics.engine.trainer import BaseTrainer
from ultralytics.utils.torch_utils import autocast, parse_device, select_device
for request in ("ocl:0", torch.device("ocl", 0), "OCL:0"):
    assert parse_device(request) == "ocl:0" and select_device(request) == torch.device("ocl", 0)
assert parse_device("cuda:1") == "1" and select_device("cpu") == "theirs cpu"
try:
    parse_device("ocl:0,1")
except ValueError as error:
    assert "one OpenCL device" in str(error)
else:
    raise AssertionError("several devices are refused")
with autocast(torch.bfloat16, "ocl"):
    assert torch.mm(*2 * [torch.ones(2, 2, device="ocl")]).dtype == torch.bfloat16
trainer = BaseTrainer("ocl")
trainer._setup_train()
assert trainer.scaler.scale(torch.ones((), device="ocl")).item() == 4
assert torch.amp.GradScaler.__module__ == "torch.amp.grad_scaler"
"""
    )


def test_torchaudio_without_its_compiled_half(tmp_path):
    program = stub(
        tmp_path,
        torchaudio___extension__utils="""
def _load_lib(lib):
    if lib == "broken":
        raise OSError(lib)
    return True
""",
    )
    run(
        program
        + """
from torchaudio._extension.utils import _load_lib as load
torch.version.cuda = None
assert load("_torchaudio") is True and load("broken") is False
torch.version.cuda = "13.0"
try:
    load("broken")
except OSError:
    pass
else:
    raise AssertionError("beside CUDA it is an error")
"""
    )


def test_checkpoints_beside_another_accelerator():
    """PyTorch's loader copies tensors of one kind of device, CUDA's where that is available. The CPU stands for it."""
    run(
        """
import torch, torch.distributed.checkpoint.filesystem as filesystem
tensors = {"ocl": torch.arange(5.0, device="ocl"), "other": torch.arange(3.0)}
torch.cpu.Stream.synchronize = lambda self: None  # it has none
for kind in ("ocl", "cpu"):
    filesystem._get_available_device_type = lambda: kind
    loader = filesystem._OverlappingCpuLoader(lambda name: tensors[name])
    assert loader.device_type == kind
    for name, tensor in tensors.items():
        loader.add(tensor.numel(), name)
    loader.start_loading()
    found = {name: tensor for tensor, name in loader.values()}
    assert {name: (tensor.device.type, tensor.tolist()) for name, tensor in found.items()} == {
        name: ("cpu", tensor.tolist()) for name, tensor in tensors.items()
    }
""",
        PYTORCH_OCL_AUTOLOAD="1",
    )


SELECTION = """
class _CudaSelection:
    _cpu_forward, _cpu_backward = "forward", "backward"
    def get_trace_forward(self, device):
        if device.type != "cpu": raise RuntimeError(f"SpikingJelly neurons support CPU and NVIDIA CUDA, not {device}")
        return "theirs"
    def get_trace_backward(self, device): return "theirs"
"""


def test_spikingjelly_takes_the_device(tmp_path):
    program = (
        stub(tmp_path, spikingjelly___ops__selection=SELECTION)
        + """
from spikingjelly._ops.selection import _CudaSelection
own = _CudaSelection()
print(*(f(torch.device(d)) for d in ("ocl:0", "cpu") for f in (own.get_trace_forward, own.get_trace_backward)))
own.get_trace_forward(torch.device("meta"))"""
    )
    with pytest.raises(AssertionError, match="not meta"):
        run(program)
    assert run(program.rpartition("\n")[0]).split() == ["forward", "backward", "theirs", "theirs"]


def test_spikingjelly_trains():
    run(
        """
import torch
from spikingjelly.activation_based import functional, layer, neuron
def train(device):
    torch.manual_seed(0)
    nodes = neuron.IFNode(), neuron.LIFNode(tau=2.0), neuron.ParametricLIFNode(), neuron.QIFNode(), neuron.EIFNode()
    net = torch.nn.Sequential(*(m for node in nodes for m in (layer.Linear(8, 8), node)))
    x = torch.rand(4, 2, 8) * 3
    functional.set_step_mode(net.to(device), "m")
    net(x.to(device)).mean(0).square().mean().backward()
    return [p.grad.cpu() for p in net.parameters()]
torch.testing.assert_close(train("ocl"), train("cpu"))
assert not torch.ocl.fallbacks()
""",
        "spikingjelly",
    )
