# SPDX-License-Identifier: MIT
"""More libraries that choose a device themselves: stand-ins with the signatures of the versions that the adapters name,
and the libraries where they are installed."""

import pytest
import torch
from test_adapters import GPU, run, stub

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="libraries that find CUDA choose it")

CHOOSERS = {
    "deepxde__backend__pytorch__tensor": "",
    "easyocr__easyocr": """
class Reader:
    def __init__(self, lang_list, gpu=True, download_enabled=True):
        self.device = ("cpu" if gpu is True else gpu) if gpu else "cpu"
""",
    "pytorch_widedeep__utils__general_utils": """
def setup_device(): return "cpu"
def to_device_model(model, device): return model.to("cpu") if device == "cpu" else model
""",
    "tabpfn__utils": """
import torch
def infer_devices(devices):
    return (torch.device("cpu"),) if devices == "auto" else (torch.device(devices),)
""",
}
CHOICES = """
from easyocr.easyocr import Reader
from pytorch_widedeep.utils.general_utils import setup_device, to_device_model
from tabpfn.utils import infer_devices
import deepxde.backend.pytorch.tensor
print(Reader(["en"]).device, Reader(["en"], False).device, Reader(["en"], "cpu").device, setup_device(),
      infer_devices("auto")[0].type, infer_devices("cpu")[0].type, torch.get_default_device().type)
model = torch.nn.Linear(2, 2, device="cpu")
print(to_device_model(model, "cpu").weight.device.type, to_device_model(model, "ocl:0").weight.device.type)
"""


def test_choosers(tmp_path):
    program = stub(tmp_path, **CHOOSERS) + CHOICES
    assert run(program, **GPU).split() == "ocl cpu cpu ocl ocl cpu ocl cpu ocl".split()
    assert run(program, **GPU, PYTORCH_OCL_ADAPTERS="0").split() == ["cpu"] * 9


def test_tabpfn_takes_no_cpus_beside_a_gpu(tmp_path):
    program = (
        stub(tmp_path, tabpfn__utils=CHOOSERS["tabpfn__utils"])
        + """
from tabpfn.utils import infer_devices
torch.ocl.device_count = lambda: 3
torch.ocl.get_device_properties = lambda i: type("", (), {"type": "cpu" if i == 2 else "gpu"})
print(*infer_devices("auto"))"""
    )
    assert run(program).split() == ["ocl:0", "ocl:1"]


MMENGINE = {
    "mmengine__device__utils": """
DEVICE = "cpu"
def get_device(): return DEVICE
def is_cuda_available(): return False
""",
    "mmengine__runner__amp": """
import contextlib
from mmengine.device import get_device
@contextlib.contextmanager
def autocast(device_type=None, enabled=True, dtype=None, cache_enabled=None):
    kind = device_type or get_device()
    assert kind == "cpu", kind
    yield
""",
    "mmengine__optim__optimizer__amp_optimizer_wrapper": """
from torch.cuda.amp import GradScaler
from mmengine.device import is_cuda_available
def make(**options):
    assert is_cuda_available()
    return GradScaler(**options)
""",
    "mmengine__structures__instance_data": """
from typing import Union
import torch
BoolTypeTensor = Union[torch.BoolTensor, torch.cuda.BoolTensor]
LongTypeTensor = Union[torch.LongTensor, torch.cuda.LongTensor]
IndexType = Union[str, slice, int, list, LongTypeTensor, BoolTypeTensor]
def ask(item):
    return [isinstance(item, kind.__args__) for kind in (IndexType, BoolTypeTensor, LongTypeTensor)]
""",
}


def test_mmengine_takes_the_device(tmp_path):
    program = stub(tmp_path, **MMENGINE)
    (tmp_path / "mmengine/device/__init__.py").write_text("from .utils import get_device, is_cuda_available\n")
    program += """
from mmengine.device import get_device
from mmengine.optim.optimizer.amp_optimizer_wrapper import make
from mmengine.runner.amp import autocast
from mmengine.structures.instance_data import ask
print(get_device())
with autocast(dtype=torch.bfloat16), autocast(cache_enabled=False):
    assert torch.is_autocast_enabled("ocl") and torch.get_autocast_dtype("ocl") == torch.bfloat16
with autocast("cpu"):
    assert not torch.is_autocast_enabled("ocl")
scaler = make(init_scale=4.0)
assert scaler.scale(torch.ones((), device="ocl")).item() == 4
x = torch.zeros(2, device="ocl")
assert ask(x.long()) == [True, False, True] and ask(x.bool()) == [True, True, False] and not any(ask(x))
assert ask(x.cpu().long()) == [True, False, True]
"""
    assert run(program, **GPU).strip() == "ocl"
    chosen = program.replace("print", "import mmengine.device.utils as m; m.DEVICE = 'ocl:0'\nprint")
    assert run(chosen).strip() == "ocl:0"


def test_mmengine_trains(tmp_path):
    run(
        f"""
import sys, torch
import mmengine.device.utils
mmengine.device.utils.DEVICE = "ocl:0"
from mmengine.model import BaseModel
from mmengine.runner import Runner
from mmengine.structures import InstanceData
class Model(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
    def forward(self, x, y, mode):
        assert x.device.type == "ocl"
        return {{"loss": torch.nn.functional.cross_entropy(self.layer(x).float(), y)}}
loader = torch.utils.data.DataLoader([(torch.ones(4) * i, i % 3) for i in range(8)], 4)
for number, dtype in enumerate((None, "float16", "bfloat16")):
    wrapper = dict(optimizer=dict(type="SGD", lr=0.1))
    if dtype:
        wrapper |= dict(type="AmpOptimWrapper", dtype=dtype)
    runner = Runner(Model(), {str(tmp_path)!r}, train_dataloader=loader, optim_wrapper=wrapper, log_level="ERROR",
                    train_cfg=dict(by_epoch=True, max_epochs=1), experiment_name=str(number), default_scope="mmengine")
    runner.train()
    assert runner.model.layer.weight.device.type == "ocl" and runner.model.layer.weight.isfinite().all()
found = InstanceData(boxes=torch.arange(8.0, device="ocl").view(4, 2), names=list("abcd"))
assert found[found.boxes[:, 0] > 3].names == ["c", "d"]
assert found[torch.tensor([3, 0], device="ocl")].names == ["d", "a"]
""",
        "mmengine",
    )


def test_widedeep_trains():
    run(
        """
import numpy, torch
from pytorch_widedeep import Trainer
from pytorch_widedeep.models import TabMlp, Wide, WideDeep
x = numpy.random.randint(1, 5, (32, 2))
table = TabMlp(column_idx={"a": 0, "b": 1}, cat_embed_input=[("a", 5, 4), ("b", 5, 4)])
model = WideDeep(wide=Wide(5, 1), deeptabular=table)
trainer = Trainer(model, objective="binary", verbose=0, device="ocl:0")
trainer.fit(X_wide=x, X_tab=x, target=(x.sum(1) % 2).astype("float32"), n_epochs=1, batch_size=8)
assert next(trainer.model.parameters()).device.type == "ocl"
assert numpy.isfinite(trainer.predict_proba(X_wide=x, X_tab=x)).all() and not torch.ocl.fallbacks()
""",
        "pytorch_widedeep",
    )
