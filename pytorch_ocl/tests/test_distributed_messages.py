# SPDX-License-Identifier: MIT
"""Messages between two ranks, and the collectives that they make up; distributed_messages.py has what ranks run."""

import signal

import pytest
import torch
import torch.distributed as dist
from test_distributed import run

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="PyTorch without Gloo")

# Through Gloo alone, through memory of the host in pieces as they are and in pieces so small that most messages need
# more than there are, through pinned memory as well, and through what devices reach.
SMALL = {"PYTORCH_OCL_SHARED_PIECE": "65536"}
WAYS = {
    "sockets": {"PYTORCH_OCL_SHARED_MEMORY": "0"},
    "host": {"PYTORCH_OCL_SHARED_MEMORY": "host"},
    "small": {"PYTORCH_OCL_SHARED_MEMORY": "host", **SMALL},
    "staged": {"PYTORCH_OCL_SHARED_MEMORY": "staged", **SMALL},
    "windows": {"PYTORCH_OCL_SHARED_MEMORY": "windows"},
    "small windows": {"PYTORCH_OCL_SHARED_MEMORY": "windows", **SMALL},
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
shared_ways = pytest.mark.parametrize("way", list(WAYS.values())[1:], ids=list(WAYS)[1:])


@ways
def test_messages(way, tmp_path):
    for code, _, errors in run("messages", tmp_path, **way):
        assert code == 0, errors


@ways
def test_any_messages(way, tmp_path):
    for code, _, errors in run("any_message", tmp_path, 3, **way):
        assert code == 0, errors


@pytest.mark.skipif(torch.ocl.device_count() < 2, reason="needs two ocl devices")
def test_any_messages_of_different_devices(tmp_path):
    for code, _, errors in run("any_message", tmp_path, 2, TEST_SPREAD="1", PYTORCH_OCL_SHARED_MEMORY="host"):
        assert code == 0, errors


@pytest.mark.parametrize("way", [WAYS["sockets"], WAYS["host"]], ids=["sockets", "host"])
def test_messages_to_wrong_ranks(way, tmp_path):
    for code, out, errors in run("wrong_ranks", tmp_path, **way):
        assert code == 0 and out.strip() == "reported", errors


@shared_ways
def test_messages_of_wrong_sizes(way, tmp_path):
    for code, out, errors in run("wrong_sizes", tmp_path, **way):
        assert code == 0 and out.strip() == "reported", errors


# The message that is under way fits no pool.
@pytest.mark.parametrize("way", [WAYS["sockets"], WAYS["small"], WAYS["staged"]], ids=["sockets", "small", "staged"])
def test_killed_sender(way, tmp_path):
    (code, out, errors), (killed, _, _) = run("killed_sender", tmp_path, **way)
    assert code == 0 and out.strip() == "reported", errors
    assert killed == -signal.SIGKILL


@ways
def test_sender_that_is_gone(way, tmp_path):
    results = run("sent_and_gone", tmp_path, **way)
    for (code, out, errors), expected in zip(results, ("arrived", "gone"), strict=True):
        assert code == 0 and out.strip() == expected, errors


@pytest.mark.parametrize("count", [2, 3])
@ways
def test_collectives_of_messages(way, count, tmp_path):
    for code, _, errors in run("gathered", tmp_path, count, **way):
        assert code == 0, errors


@shared_ways
def test_parts_of_wrong_sizes(way, tmp_path):
    for code, out, errors in run("unlike_parts", tmp_path, **way):
        assert code == 0 and out.strip() == "reported", errors
