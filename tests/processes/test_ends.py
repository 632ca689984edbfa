"""How processes end: their statuses and last words, and what the others say of them."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest
from processes.launching import HERE


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextlib.contextmanager
def started(program, *numbers, counts=None, **env):
    """A process for each number, connected by the environment."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {
        "JAX_COORDINATOR_ADDRESS": free_address(),
        "JAX_NUM_CPU_DEVICES": "1",
        "TEUCER_HEARTBEAT_TIMEOUT": "4",
        **env,
    }
    running = [
        subprocess.Popen(
            [sys.executable, *program],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **environment,
                "JAX_PROCESS_ID": str(number),
                "JAX_NUM_PROCESSES": str(counts[i] if counts else len(set(numbers))),
            },
        )
        for i, number in enumerate(numbers)
    ]
    try:
        yield running
    finally:
        for p in running:
            p.kill()
            p.wait()
            for stream in (p.stdin, p.stdout, p.stderr):
                stream.close()


CONNECT = "import sys, teucer as jax; jax.distributed.initialize(initialization_timeout=40); "


def test_statuses_and_texts_of_exit():
    code = CONNECT + "sys.exit([7, 'bad data'][jax.process_index()])"
    with started(["-c", code], 0, 1) as running:
        said = [p.communicate(timeout=100)[1] for p in running]
        assert [p.returncode for p in running] == [7, 1], said
        assert said[1].rstrip().endswith("bad data")


@pytest.mark.parametrize("counts", [(2, 3), pytest.param((3, 2), marks=pytest.mark.slow)])
def test_a_wrong_count_of_processes(counts):
    """Nobody waits for ever, and somebody says how many were to come."""
    code = CONNECT.replace("40", "8") + "jax.distributed.shutdown()"
    with started(["-c", code], 0, 1, counts=counts) as running:
        said = [p.communicate(timeout=100)[1] for p in running]
        assert all(p.returncode == 1 for p in running), ([p.returncode for p in running], said)
        assert any("processes" in text for text in said), said
        if counts[0] == 2:
            told = "process 1 was told of 3 processes, process 0 of 2"
            assert all(told in text for text in said), said


def ended(processes, seconds):
    """The first that ends."""
    for _ in range(10 * seconds):
        for p in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(0.05)
                return p
    raise TimeoutError


@pytest.mark.slow  # two of three wait for a sign
def test_a_number_that_comes_twice_while_others_join():
    """One of both is refused, and the other goes on with process 0."""
    program = [str(HERE / "programs.py"), "keeps_on"]
    with started(program, 1, 1, 0) as running:
        assert running[2].stdout.readline() == "here\n"
        refused = ended(running[:2], 100)
        told = refused.communicate()[1]
        assert refused.returncode == 1 and "the number 1 is taken" in told, told
        running[2].stdin.close()
        (other,) = (p for p in running[:2] if p is not refused)
        assert "it went on" in other.communicate(timeout=60)[0]
        assert running[2].wait(60) == other.returncode == 0
