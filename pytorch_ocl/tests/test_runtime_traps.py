# SPDX-License-Identifier: MIT
"""What PyTorch asks of a device beyond operators: each point once."""
import copy
import io
import subprocess
import sys

import pytest
import torch


def run(script):
    """Output of a fresh process."""
    done = subprocess.run([sys.executable, "-c", "import torch, pytorch_ocl\n" + script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_conjugate_and_negative_views_are_copied(device):
    host = torch.complex(torch.arange(4.), torch.arange(4.) + 1)
    ours = host.to(device)
    assert torch.equal(ours.conj().cpu(), host.conj().resolve_conj())
    assert torch.equal(ours.conj().imag.cpu(), host.conj().imag.resolve_neg())
    assert torch.equal(torch._neg_view(ours.real).clone().cpu(), -host.real)


def test_module_to_keeps_parameters(device):
    module = torch.nn.Linear(3, 2)
    weight = module.weight
    module.to(device)
    assert module.weight is weight and weight.device == torch.device(device)
    module.cpu()
    assert module.weight is weight and weight.device.type == "cpu"


def test_tied_weights_stay_tied(device):
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    pair = torch.nn.Sequential(first, second).to(device)
    assert pair[0].weight is pair[1].weight


def test_operators_run_on_the_device_of_their_tensors():
    last = torch.ocl.device_count() - 1
    made = torch.arange(5, device=f"ocl:{last}")
    assert made.device.index == last and (made + 1).device.index == last
    assert torch.equal((made * 2).cpu(), torch.arange(5) * 2)
    assert torch.ocl.current_device() == 0


@pytest.mark.skipif("torch.ocl.device_count() < 2", reason="needs two devices")
def test_copy_between_devices():
    made = torch.randn(3, 4, device="ocl:0")
    other = made.to("ocl:1")
    assert other.device.index == 1 and torch.equal(other.cpu(), made.cpu())
    with pytest.raises(RuntimeError, match="same device"):
        made + other


def test_mixed_devices_raise(device):
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(torch.ones(2, 2, device=device), torch.ones(2, 2))


def test_checkpoint_restores_the_random_state(device):
    from torch.utils.checkpoint import checkpoint

    values = []

    def noisy(x):
        noise = torch.rand(5, device=device)
        values.append(noise.cpu())
        return x * noise

    checkpoint(noisy, torch.ones(5, device=device, requires_grad=True), use_reentrant=False).sum().backward()
    assert len(values) == 2 and torch.equal(*values)


def test_dlpack_round_trip(device):
    ours = torch.arange(6., device=device)[2:]
    shared = torch.from_dlpack(ours)
    assert shared.device == ours.device and shared.data_ptr() == ours.data_ptr()
    assert torch.equal(shared.cpu(), ours.cpu())


def test_a_broken_backend_does_not_break_import_torch():
    done = subprocess.run([sys.executable, "-c", "import torch, pytorch_ocl; assert not torch.ocl.is_available(); "
                           "print(pytorch_ocl.unavailable_reason())"], capture_output=True, text=True,
                          env={"DLPRIM_OPENCL_LIBRARY": "/nonexistent", "PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_accelerator(device):
    assert torch.accelerator.current_accelerator().type == "ocl"
    assert torch.accelerator.device_count() == torch.ocl.device_count() > 0
    torch.accelerator.synchronize()


def test_save_and_load(device, tmp_path):
    state = torch.nn.Linear(3, 2).to(device).state_dict()
    torch.save(state, tmp_path / "state.pt")
    for where in ("cpu", device):
        for name, value in torch.load(tmp_path / "state.pt", map_location=where).items():
            assert value.device == torch.device(where) and torch.equal(value.cpu(), state[name].cpu())
    buffer = io.BytesIO()
    torch.save(torch.ones(3), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location=device).device == torch.device(device)


def test_deepcopy_and_printing(device):
    made = torch.arange(3., device=device)
    other = copy.deepcopy(made)
    assert other.data_ptr() != made.data_ptr() and torch.equal(other.cpu(), made.cpu())
    assert "device='ocl" in repr(made) and "1." in repr(made)


def test_storage_resizes_and_keeps_its_bytes(device):
    made = torch.arange(4., device=device)
    made.untyped_storage().resize_(64)
    assert made.untyped_storage().nbytes() == 64 and torch.equal(made.cpu(), torch.arange(4.))
    made.untyped_storage().resize_(0)
    assert made.untyped_storage().nbytes() == 0


def test_fork_is_reported():
    out = run("import os, sys\n"
              "torch.ones(2, device='ocl').cpu()\n"
              "pid = os.fork()\n"
              "if pid == 0:\n"
              "    try:\n"
              "        torch.ones(2, device='ocl')\n"
              "    except RuntimeError as error:\n"
              "        print(error, flush=True)\n"
              "    os._exit(0)\n"
              "os.waitpid(pid, 0)")
    assert "forked subprocess" in out and "spawn" in out


def test_fallback_counts_and_forbids():
    out = run("import os, warnings\n"
              "warnings.simplefilter('ignore')\n"
              "x = torch.eye(3, device='ocl')\n"
              "torch.linalg.eigvals(x)\n"
              "print(sum('eig' in name for name in torch.ocl.fallbacks()))\n"
              "os.environ['PYTORCH_OCL_FALLBACK'] = 'error'\n"
              "try:\n"
              "    torch.linalg.eigvals(x)\n"
              "except NotImplementedError as error:\n"
              "    print('eig' in str(error))")
    assert out.split() == ["1", "True"]
