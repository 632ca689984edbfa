"""Programs over several processes of this machine, started by `teucer launch`."""

import os
import re
import socket
import subprocess
import sys

import pytest
from processes.faults import FAST, FAULTS, check_fault
from processes.launching import HERE, launch


@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_values(devices):
    done = launch("values", 2, devices)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("values are right") == 2


def test_refusals_say_what_to_do():
    done = launch("refusals")
    assert done.returncode == 0, done.stderr
    for text in (
        (
            r"RuntimeError Fetching value for `jax.Array` that spans non-addressable "
            r".*process_allgather\(x, tiled=True\)"
        ),
        r"ValueError Gathering global non-fully-addressable arrays only supports tiled=True",
        r"RuntimeError distributed.initialize should only be called once",
        r"AssertionError sync_global_devices name mismatch \('[01]'\)",
        (
            r"ValueError make_array_from_process_local_data: .* this process holds 1 of the 2 "
            r"parts along axis 0; .*6, or 3"
        ),
        (
            r"ValueError process_allgather: the processes give values of different types. +process "
            r"0: in_tree\['x'\]: int32\[2\] +process 1: in_tree\['x'\]: float32\[2\]"
        ),
        r"FloatingPointError invalid value \(nan\) encountered in <lambda>",
    ):
        assert len(re.findall(text, done.stdout)) == 2, (text, done.stdout)


def test_many_calls_do_not_hang():
    done = launch("many", 2, 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("300 calls") == 2


def check_survivors(n):
    done = launch(
        "goes_on",
        n,
        JAX_ENABLE_RECOVERABILITY="1",
        TEUCER_HEARTBEAT_TIMEOUT="5",
        TEUCER_COLLECTIVE_TIMEOUT="40",
    )
    said = done.stdout + done.stderr
    assert "survivors: 1.0 of" in done.stdout, said
    assert done.stdout.count("survivors:") == len(
        re.findall(r"^ +\d+  status 0 ", done.stderr, re.M)
    ), said
    assert done.stderr.rstrip().endswith(f"teucer launch: process {n - 1} failed first."), said


@pytest.mark.slow  # it waits for the sign of a process that has died
def test_survivors_go_on():
    check_survivors(2)


@pytest.mark.slow  # some are ended, since they wait within XLA for one that is alive
@pytest.mark.parametrize("n", [3, 4])
def test_some_of_several_survivors_go_on(n):
    check_survivors(n)


@pytest.mark.parametrize("kind", ["smaller batch"])  # the others are slow tests below
def test_faults_end_every_process(kind):
    check_fault(kind, 2)


@pytest.mark.slow  # the others wait for it
def test_the_status_of_who_ends_early():
    done = launch("exits", 2, **FAST)
    assert done.returncode == 3, done.stderr
    assert re.search(r"^ +1  status 3 ", done.stderr, re.M), done.stderr


@pytest.mark.slow  # as `faults.py` does it twenty times
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault(kind, n):
    check_fault(kind, n)


@pytest.mark.slow  # three processes
def test_the_first_that_failed_is_named():
    done = launch("raises late", 3, **FAST)
    assert done.returncode == 1
    assert re.search(
        r"^ +0  status 1 .*process 2 has failed: ValueError: bad data", done.stderr, re.M
    ), done.stderr
    assert done.stderr.rstrip().endswith("teucer launch: process 2 failed first.")
    assert re.search(r"^ +2  status 1 .*ValueError: bad data$", done.stderr, re.M)


def alone(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


def test_who_waits_for_others_says_for_whom():
    code = (
        "import teucer as jax; jax.distributed.initialize('127.0.0.1:{}', 2, {}, "
        "initialization_timeout=2)"
    )
    found = alone(code.format(39571, 0))
    assert (
        "TimeoutError: jax.distributed.initialize: process 0 has waited 2 s for 2 processes"
        in found.stderr
    )
    assert "not all processes have come" in found.stderr
    found = alone(code.format(39572, 1))
    assert "Nobody listens at 127.0.0.1:39572" in found.stderr


def test_arguments():
    messages = {
        "'localhost:1', 2, 2": "process_id is 2, and there are 2 processes",
        "'localhost', 2, 1": "coordinator_address is 'host:port', got 'localhost'",
        "": "coordinator_address should be defined",
        "cluster_detection_method='x'": "cluster_detection_method 'x' is not known",
        "cluster_detection_method='slurm'": "the environment is not one of 'slurm'",
    }
    tries = "".join(
        f"\ntry: jax.distributed.initialize({call})\nexcept Exception as err: print(err)"
        for call in messages
    )
    found = alone(f"import teucer as jax{tries}")
    for message in messages.values():
        assert message in found.stdout, found


@pytest.mark.parametrize(
    "seconds", [1, pytest.param(20, marks=pytest.mark.slow)]
)  # longer than jaxlib's patience, which is 10 s
def test_a_number_that_is_taken(seconds):
    """The process that comes second is refused, with both named; the first goes on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {
        **{k: v for k, v in os.environ.items() if k != "XLA_FLAGS"},
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": "2",
        "TEUCER_HEARTBEAT_TIMEOUT": "1",
    }

    def start(number):
        return subprocess.Popen(
            [sys.executable, str(HERE / "programs.py"), "keeps_on"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, "JAX_PROCESS_ID": str(number)},
        )

    both = [start(number) for number in (0, 1)]
    try:
        assert [p.stdout.readline() for p in both] == ["here\n"] * 2
        rival = start(1)
        _, refused = rival.communicate(timeout=60)
        host = socket.gethostname()
        assert (
            "RuntimeError: jax.distributed.initialize: the number 1 is taken.\n"
            f"    process 1: {host}, pid {both[1].pid}\n    this process: {host}, pid "
            f"{rival.pid}\n"
        ) in refused, refused
        assert rival.returncode == 1
        with pytest.raises(subprocess.TimeoutExpired):
            both[1].wait(seconds)
        said = [p.communicate(timeout=60) for p in both]
        assert all(
            out.endswith("it went on\n") and not p.returncode
            for (out, _), p in zip(said, both, strict=True)
        ), said
        assert (
            f"process 1 goes on; another process came with its number, and was refused: {host}"
            in said[1][1]
        )
    finally:
        for p in both:
            p.kill()


def test_too_late():
    found = alone(
        "import teucer as jax; jax.devices(); jax.distributed.initialize('localhost:1', 1, 0)"
    )
    assert (
        "must be called before any JAX calls that might initialise the XLA backend" in found.stderr
    )


def test_one_process_alone():
    found = alone(
        "import teucer as jax; jax.distributed.initialize('localhost:39573', 1, 0); "
        "print(jax.distributed.is_initialized(), jax.numpy.ones(2).sum()); "
        "jax.distributed.shutdown(); print(jax.distributed.is_initialized())"
    )
    assert found.stdout == "True 2.0\nFalse\n", found.stderr


def test_a_program_that_is_not_there_is_said_once():
    done = launch("x", 4, program="nosuch.py")
    assert done.returncode == 2 and done.stderr.count("nosuch.py") == 1, done.stderr
    assert not done.stdout and "Traceback" not in done.stderr


def test_launch_ends_its_processes_when_it_is_told_to_end(tmp_path):
    program = tmp_path / "waits.py"
    program.write_text("import os, threading\nprint(os.getpid())\nthreading.Event().wait()\n")
    command = [sys.executable, "-m", "teucer", "launch", "-n", "2", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launched:
        pids = [int(launched.stdout.readline().split()[1]) for _ in range(2)]
        launched.terminate()
        assert launched.wait(60) != 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
