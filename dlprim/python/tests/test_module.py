# SPDX-License-Identifier: MIT
"""The Python module: tensors, networks, training, snapshots, threads, without PyTorch."""

import gc
import sys
import threading

import numpy as np
import pytest
import sklearn.datasets
from building import ROOT, run, write_classifier
from building import dlprim as command

import dlprim

DIGITS = ROOT / "examples/nets/digits.json"


@pytest.fixture(scope="module")
def context():
    return dlprim.Context()


@pytest.fixture(scope="module")
def digits():
    data = sklearn.datasets.load_digits()
    return (data.images / 16).astype(np.float32)[:, None], data.target.astype(np.int32)


def test_import_needs_no_torch():
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'dlprim/python')!r})\n"
    code += "import dlprim; assert 'torch' not in sys.modules; print(len(dlprim.devices()))"
    assert int(run(sys.executable, "-c", code)) > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"])
def test_tensors(context, dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = dlprim.Tensor.from_array(context, values)
    assert tensor.shape == (2, 3) and tensor.dtype == dtype
    for array in (tensor.numpy(), np.asarray(tensor), tensor.to_host(), np.from_dlpack(tensor)):
        np.testing.assert_array_equal(array, values)
    tensor.to_device(values[::-1])
    np.testing.assert_array_equal(tensor.reshape([3, 2]).numpy(), values[::-1].reshape(3, 2))


def test_wrong_arrays_are_refused(context):
    tensor = dlprim.Tensor(context, [2, 3])
    with pytest.raises(dlprim.ValidationError, match="expected float32"):
        tensor.to_device(np.zeros((2, 3), np.int32))
    with pytest.raises(ValueError, match=r"expected float32 \[2, 3\]"):
        tensor.to_device(np.zeros((3, 3), np.float32))
    with pytest.raises(dlprim.ValidationError, match="no such device"):
        dlprim.Context("no such device")


def trained(context, digits, epochs=1, solver=dlprim.Adam):
    images, labels = digits
    net = dlprim.Net(context)
    net.mode = dlprim.CalculationsMode.TRAIN
    net.load_from_json_file(str(DIGITS))
    optimizer = solver(net, lr=2e-3)
    optimizer.schedule = dlprim.schedules.cosine(2e-3, epochs * 22)
    losses = []
    for step in range(epochs * 22):
        rows = slice(step % 22 * 64, step % 22 * 64 + 64)
        net.set_input("data", images[rows])
        net.set_input("label", labels[rows])
        optimizer.zero_grad()
        net.forward()
        net.backward()
        optimizer.step()
        losses.append(net.output("loss").numpy().item())
    assert optimizer.steps == epochs * 22
    return net, optimizer, losses


def predict(net, images):
    net.mode = dlprim.CalculationsMode.PREDICT
    net.set_input("data", images)
    net.set_input("label", np.zeros(len(images), np.int32))
    net.forward()
    return net.output("prob").numpy()


@pytest.mark.parametrize("name", ["net.dlp", "net.h5", "net.safetensors"])
def test_training_and_snapshots(context, digits, tmp_path, name):
    net, optimizer, losses = trained(context, digits, epochs=2)
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    net.save_parameters(str(tmp_path / name))
    again = dlprim.Net(context)
    again.load_from_json_file(str(DIGITS))
    again.load_parameters(str(tmp_path / name))
    # Batch normalization is folded into weights where nobody holds them: the last digits differ.
    np.testing.assert_allclose(predict(again, digits[0][:100]), predict(net, digits[0][:100]), rtol=1e-5)
    from_arrays = dlprim.Net(context)
    from_arrays.load_from_json_file(str(DIGITS))
    from_arrays.load_parameters(dlprim.read_parameters(str(tmp_path / name)))
    np.testing.assert_array_equal(predict(from_arrays, digits[0][:9]), predict(again, digits[0][:9]))


def test_a_net_that_the_command_trained_predicts_the_same(digits, context, tmp_path):
    run(sys.executable, ROOT / "examples/digits.py", tmp_path)
    text = command("train", DIGITS, tmp_path, "-e", 12, "--lr", 0.002, "--schedule", "cosine", "-o", tmp_path)
    accuracy = float(text.split("accuracy ")[-1].split(" ")[0])
    net = dlprim.Net(context)
    net.load_from_json_file(str(DIGITS))
    net.load_parameters(str(tmp_path / "snap_12.dlp"))
    images = np.frombuffer((tmp_path / "t10k-images-idx3-ubyte").read_bytes()[16:], np.uint8).reshape(-1, 1, 8, 8)
    labels = np.frombuffer((tmp_path / "t10k-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    scores = predict(net, (images / 255).astype(np.float32))
    assert accuracy >= 98 and 100 * np.mean(scores.argmax(1) == labels) == pytest.approx(accuracy, abs=0.01)


def test_solver_state_goes_on(context, digits):
    net, optimizer, _ = trained(context, digits)
    state = optimizer.state()
    other = dlprim.Adam(net)
    other.load_state(state)
    shapes = {name: array.shape for name, array in state.items()}
    assert {name: array.shape for name, array in other.state().items()} == shapes
    gradient = net.param_diff(net.param_names()[0])
    assert gradient is None or np.isfinite(gradient.numpy()).all()


def test_solvers_keep_their_net_alive(context, digits):
    _, optimizer, _ = trained(context, digits, solver=dlprim.SGD)
    gc.collect()
    optimizer.zero_grad()


def test_net_config(context):
    config = dlprim.NetConfig()
    config.add_input("data", [4, 6])
    config.add("InnerProduct", {"outputs": 3}, name="fc")
    config.add("Softmax")
    net = dlprim.Net(context)
    net.load_from_json(config.to_str())
    net.set_input(0, np.ones((4, 6), np.float32))
    net.forward()
    np.testing.assert_allclose(net.output(0).numpy().sum(1), 1, rtol=1e-5)
    assert [info.name for info in net.inputs] == ["data"] and len(net.param_names()) == 2


def test_sessions_are_shared_by_threads(tmp_path):
    session = dlprim.InferenceSession(write_classifier(tmp_path / "net.onnx", size=32, batch="N"))
    assert session.get_inputs()[0].type == "tensor(float)" and session.get_inputs()[0].shape == ["N", 3, 32, 32]
    results = {}

    def work(n):
        results[n] = session.run(["scores"], {"input": np.full((n, 3, 32, 32), n, np.float32)})[0]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert {n: result.shape for n, result in results.items()} == {n: (n, 1000) for n in range(1, 5)}
    with pytest.raises(ValueError, match="expected the inputs"):
        session.run(None, {"wrong": np.zeros(3)})


def test_other_work_runs_beside_a_network(tmp_path):
    """The GIL is free while a network runs."""
    session = dlprim.InferenceSession(write_classifier(tmp_path / "net.onnx", size=1024))
    feeds = {"input": np.zeros((1, 3, 1024, 1024), np.float32)}
    session.run(None, feeds)
    stop, count = threading.Event(), 0
    thread = threading.Thread(target=lambda: ([session.run(None, feeds) for _ in range(20)], stop.set()))
    thread.start()
    while not stop.is_set():
        count += 1
    thread.join()
    assert count > 100


def test_stubs_name_everything():
    stub = (ROOT / "dlprim/python/dlprim/_core.pyi").read_text()
    for name in ("class Net", "class Tensor", "def forward", "class SGD(Solver)", "def shape(self) -> tuple[int, ...]"):
        assert name in stub
