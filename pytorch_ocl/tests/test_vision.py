# SPDX-License-Identifier: MIT
"""torchvision's operators and detection networks against torchvision's own on the CPU."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

if importlib.util.find_spec("torchvision") is None:
    pytest.skip("compares with torchvision, which is not installed", allow_module_level=True)
import torchvision_cpu  # noqa: E402

torchvision = torchvision_cpu.load()
from torchvision import ops  # noqa: E402

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def boxes_of(count, size=30.0, seed=0):
    """x1, y1, x2, y2 of random boxes."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator, dtype=torch.float64) * size
    return torch.cat([corner, corner + torch.rand(count, 2, generator=generator, dtype=torch.float64) * size / 2], 1)


def regions_of(count, images, size=30.0):
    """Regions of images: some beyond the border, one without area, one reversed."""
    boxes = boxes_of(count, size)
    boxes[0] = torch.tensor([-8.0, -5.0, size + 9, size + 3])
    boxes[1, 2:] = boxes[1, :2]
    boxes[2] = boxes[2, [2, 3, 0, 1]]
    return torch.cat([(torch.arange(count) % images).unsqueeze(1).double(), boxes], 1)


def same_as_cpu(function, tensors, dtype, device):
    """Compares results and gradients with the CPU's, where 16-bit numbers are computed in float32."""
    given = [t.to(dtype) for t in tensors]
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    on_cpu = [t.to(wide).clone().requires_grad_() for t in given]
    on_device = [t.to(device).requires_grad_() for t in given]
    want, got = function(*on_cpu), function(*on_device)
    assert got.dtype == dtype and got.device.type == torch.device(device).type
    close = dict(rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True)
    torch.testing.assert_close(got.cpu().to(wide), want, **close)
    grad = torch.randn(want.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    want.backward(grad.to(wide))
    got.backward(grad.to(device))
    for a, b in zip(on_device, on_cpu):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            scale = max(1.0, b.grad.abs().nan_to_num().max().item())
            torch.testing.assert_close(a.grad.cpu().to(wide) / scale, b.grad / scale, **close)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 500, 3000])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_nms(device, count, threshold):
    boxes, scores = boxes_of(count).float(), torch.rand(count).round(decimals=2)
    kept = ops.nms(boxes.to(device), scores.to(device), threshold)
    assert kept.dtype == torch.int64 and kept.device.type == "ocl"
    assert kept.tolist() == ops.nms(boxes, scores, threshold).tolist()


def test_nms_decides_at_the_threshold_as_the_cpu_does(device):
    boxes = torch.tensor([[0, 0, 2, 2], [0, 0, 2, 1], [5, 5, 5, 5], [5, 5, 5, 5], [1, 1, float("nan"), 3]])
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5])
    for threshold in (0.5, 0.49999999, 0.1, 1.0, -1.0):
        for dtype in (torch.float32, torch.float64):
            want = ops.nms(boxes.to(dtype)[:4], scores.to(dtype)[:4], threshold)
            assert (
                ops.nms(boxes[:4].to(device, dtype), scores[:4].to(device, dtype), threshold).tolist() == want.tolist()
            )
    assert 4 in ops.nms(boxes.to(device), scores.to(device), 0.1).tolist()


@pytest.mark.whole
def test_nms_of_many_boxes_in_several_pieces(device):
    boxes, scores = boxes_of(40000, 3000).float(), torch.rand(40000)
    assert ops.nms(boxes.to(device), scores.to(device), 0.2).tolist() == ops.nms(boxes, scores, 0.2).tolist()


def test_batched_nms(device):
    boxes, scores, labels = boxes_of(300).float(), torch.rand(300), torch.randint(5, (300,))
    want = ops.batched_nms(boxes, scores, labels, 0.4)
    assert ops.batched_nms(boxes.to(device), scores.to(device), labels.to(device), 0.4).tolist() == want.tolist()
    none = ops.nms(torch.empty(0, 4, device=device), torch.empty(0, device=device), 0.5)
    assert none.shape == (0,) and none.dtype == torch.int64


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling", [-1, 0, 1, 3])
def test_roi_align(device, dtype, aligned, sampling):
    images, regions = torch.randn(2, 3, 15, 17), regions_of(7, 2, 28 if dtype != torch.bfloat16 else 8).round()
    same_as_cpu(lambda x: ops.roi_align(x, regions.to(x), (4, 5), 0.5, sampling, aligned), [images], dtype, device)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_roi_pool(device, dtype):
    images, regions = torch.randn(2, 3, 15, 17), regions_of(7, 2).round()
    same_as_cpu(lambda x: ops.roi_pool(x, regions.to(x), (4, 5), 0.5), [images], dtype, device)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sampling", [-1, 2])
def test_ps_roi_align(device, dtype, sampling):
    images, regions = torch.randn(2, 24, 15, 17), regions_of(7, 2, 28).round()
    same_as_cpu(lambda x: ops.ps_roi_align(x, regions.to(x), (4, 3), 0.5, sampling), [images], dtype, device)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ps_roi_pool(device, dtype):
    images, regions = torch.randn(2, 24, 15, 17), regions_of(7, 2, 28).round()
    same_as_cpu(lambda x: ops.ps_roi_pool(x, regions.to(x), (4, 3), 0.5), [images], dtype, device)


@pytest.mark.parametrize("name", ["ps_roi_align", "ps_roi_pool", "roi_pool"])
def test_second_results(device, name):
    images, regions = torch.randn(2, 24, 15, 17), regions_of(5, 2, 28).float()
    numbers = (0.5, 4, 3) + ((2,) if name == "ps_roi_align" else ())
    operator = getattr(torch.ops.torchvision, name)
    want, got = operator(images, regions, *numbers)[1], operator(images.to(device), regions.to(device), *numbers)[1]
    assert got.dtype == want.dtype and torch.equal(got.cpu(), want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups, offset_groups", [(1, 1), (2, 3), (3, 2)])
def test_deform_conv2d(device, dtype, masked, groups, offset_groups):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 6, 9, 8) / 4, torch.randn(6, 6 // groups, 3, 2) / 4, torch.randn(6)
    offset = torch.randn(3, offset_groups * 12, 4, 9) * 2 + 0.01
    mask = torch.rand(3, offset_groups * 6, 4, 9)
    if dtype in (torch.float16, torch.bfloat16):
        offset = (offset * 4).round() / 4 + 0.125

    def run(x, offset, weight, bias, mask):
        return ops.deform_conv2d(x, offset, weight, bias, (2, 1), (1, 2), (2, 3), mask if masked else None)

    tensors = [x, offset, weight, bias, mask]
    if masked:
        same_as_cpu(run, tensors, dtype, device)
    else:
        same_as_cpu(lambda *rest: run(*rest, None), tensors[:4], dtype, device)


def test_views_and_nothing(device):
    images, regions = torch.randn(2, 15, 17, 3).permute(0, 3, 1, 2), regions_of(6, 2, 28).float()[::2]
    same_as_cpu(lambda x: ops.roi_align(x, regions.to(x), 3), [images], torch.float32, device)
    x = torch.randn(2, 3, 8, 8, device=device, requires_grad=True)
    for function in (ops.roi_align, ops.roi_pool):
        out = function(x, torch.empty(0, 5, device=device), (3, 2))
        assert out.shape == (0, 3, 3, 2)
        out.sum().backward()
        assert x.grad.eq(0).all()
    layer = ops.DeformConv2d(3, 4, 3)
    empty = torch.empty(0, 3, 8, 8, device=device), torch.empty(0, 18, 6, 6, device=device)
    assert layer.to(device)(*empty).shape == (0, 4, 6, 6)


def test_errors(device):
    x, regions = torch.randn(1, 3, 8, 8, device=device), torch.zeros(2, 5, device=device)
    with pytest.raises(RuntimeError, match=r"rois must have shape as Tensor\[K, 5\]"):
        torch.ops.torchvision.roi_align(x, regions[:, :4], 1.0, 2, 2, -1, False)
    with pytest.raises(RuntimeError, match="same type"):
        torch.ops.torchvision.roi_pool(x, regions.double(), 1.0, 2, 2)
    with pytest.raises(RuntimeError, match="multiple of pooling height"):
        ops.ps_roi_pool(x, regions, 2)
    with pytest.raises(RuntimeError, match="same device"):
        ops.roi_align(x, regions.cpu(), 2)
    with pytest.raises(RuntimeError, match="4 elements in dimension 1"):
        ops.nms(regions, regions[:, 0], 0.5)
    with pytest.raises(RuntimeError, match="offset.shape"):
        ops.deform_conv2d(x, torch.zeros(1, 16, 6, 6, device=device), torch.zeros(2, 3, 3, 3, device=device))
    y = x.clone().requires_grad_()
    gradient = torch.autograd.grad(ops.roi_align(y, regions, 2).square().sum(), y, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="double backwards"):
        gradient.sum().backward()
    for pool in (ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool):
        with pytest.raises(IndexError, match=f"^{pool.__name__}: image 7 does not exist"):
            pool(torch.ones(1, 4, 8, 8, device=device), regions + 7, 2)
            torch.ocl.synchronize()


def test_autocast(device):
    x, regions = torch.randn(1, 4, 8, 8, device=device).half(), regions_of(4, 1, 8).float().to(device)
    with torch.autocast("ocl"):
        assert ops.roi_align(x, regions, 2).dtype == torch.float16
        assert ops.ps_roi_pool(x, regions, 2).dtype == torch.float16
        assert len(ops.nms(regions[:, 1:].half(), regions[:, 1], 0.5)) > 0


def test_compiled_to_the_same(device):
    x, regions = torch.randn(1, 4, 8, 8, device=device, requires_grad=True), regions_of(4, 1, 8).float().to(device)

    def step(x):
        return ops.roi_align(x, regions, 2, aligned=True).square()

    expected = torch.autograd.grad(step(x).sum(), x)[0]
    assert torch.allclose(torch.autograd.grad(torch.compile(step, backend="aot_eager")(x).sum(), x)[0], expected)


def small_network(kind):
    """A detection network of torchvision with a backbone of two layers."""
    from torchvision.models import detection

    torch.manual_seed(0)
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 4, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, 2, 1))
    backbone.out_channels = 16
    extra = {"num_keypoints": 5} if kind == "KeypointRCNN" else {}
    return getattr(detection, kind)(
        backbone,
        num_classes=2,
        min_size=96,
        max_size=128,
        box_detections_per_img=20,
        rpn_anchor_generator=detection.anchor_utils.AnchorGenerator(((16, 32, 64),)),
        **extra,
    )


@pytest.mark.parametrize("kind", ["FasterRCNN", "MaskRCNN", pytest.param("KeypointRCNN", marks=pytest.mark.whole)])
def test_networks(device, kind):
    """The losses of a step and what is found, with small images."""
    image = torch.rand(3, 96, 96)
    target = {"boxes": torch.tensor([[8.0, 8, 60, 70], [30, 20, 90, 50]]), "labels": torch.tensor([1, 1])}
    if kind == "MaskRCNN":
        target["masks"] = torch.zeros(2, 96, 96, dtype=torch.uint8)
        target["masks"][0, 8:70, 8:60] = 1
        target["masks"][1, 20:50, 30:90] = 1
    if kind == "KeypointRCNN":
        target["keypoints"] = torch.cat([torch.rand(2, 5, 2) * 40 + 20, torch.ones(2, 5, 1)], 2)

    def run(where):
        model = small_network(kind).to(where).train()
        losses = model([image.to(where)], [{key: value.to(where) for key, value in target.items()}])
        sum(losses.values()).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
        with torch.no_grad():
            found = model.eval()([image.to(where)])[0]
        return {key: value.item() for key, value in losses.items()}, found

    torch.ocl.reset_fallbacks()
    (want, expected), (got, found) = run("cpu"), run(device)
    # Which anchors are sampled is drawn by each device, so that losses agree roughly only.
    assert got == pytest.approx(want, rel=0.35, abs=0.25)
    assert all(value.device.type == "ocl" for value in found.values())
    for key, value in expected.items():
        torch.testing.assert_close(found[key].cpu(), value, rtol=1e-3, atol=1e-3)
    assert not torch.ocl.fallbacks()


@pytest.mark.parametrize("first", ["pytorch_ocl", "torchvision"])
def test_either_may_be_imported_first(first):
    load = "import torchvision_cpu; torchvision_cpu.load()"
    program = f"""
import torch
{"import pytorch_ocl" if first == "pytorch_ocl" else load}
{load if first == "pytorch_ocl" else "import pytorch_ocl"}
import torchvision
boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [4, 4, 5, 5]], device="ocl")
assert torchvision.ops.nms(boxes, torch.tensor([0.5, 0.6, 0.7], device="ocl"), 0.5).tolist() == [2, 1]
x = torch.randn(1, 1, 8, 8, device="ocl", requires_grad=True)
torchvision.ops.roi_align(x, [boxes], 2).sum().backward()
assert x.grad.sum().item() > 0
"""
    environment = {"PYTORCH_OCL_AUTOLOAD": "0", "PYTORCH_OCL_FALLBACK": "error"}
    run_program(program, environment)


def test_schemas_may_be_declared_by_others():
    """Without torchvision's compiled half, gradients included."""
    program = """
import torch, pytorch_ocl
from pytorch_ocl import models
assert not hasattr(torch.ops.torchvision, "nms")
models.torchvision_models()
import torchvision
regions = torch.tensor([[0.0, 0, 0, 4, 4], [0, 1, 1, 6, 7]], device="ocl")
x = torch.randn(1, 4, 8, 8, device="ocl", requires_grad=True)
torch.ops.torchvision.roi_align(x, regions, 1.0, 2, 2, -1, True).sum().backward()
assert x.grad.sum().item() > 0
assert torch.ops.torchvision.nms(regions[:, 1:], regions[:, 3], 0.5).tolist() == [1, 0]
"""
    run_program(program, {"PYTORCH_OCL_FALLBACK": "error"})


def run_program(program, environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=os.path.dirname(__file__),
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
