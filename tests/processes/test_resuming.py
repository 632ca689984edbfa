"""A training program that is ended, by its cluster or by force, and goes on with another number of
processes."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from processes.launching import HERE

ROOT = HERE.parent.parent
CLUSTERS = ROOT / "examples" / "clusters"
PROGRAM = CLUSTERS / "resumable.py"


def start(folder, n, steps, devices=1):
    command = [sys.executable, "-m", "teucer", "launch", "-n", str(n), "--devices", str(devices)]
    return subprocess.Popen(
        [*command, PROGRAM, folder, str(steps)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={k: v for k, v in os.environ.items() if k != "XLA_FLAGS"},
    )


def losses(folder):
    """The loss of each step, the last that was written of it; all of one step are the same."""
    found = {}
    for line in (folder / "losses.txt").read_text().splitlines():
        step, loss = line.split()
        np.testing.assert_allclose(found.setdefault(int(step), float(loss)), float(loss), rtol=1e-4)
    return found


def alone(steps):
    """The losses of a run that nothing ends."""
    w, speed, found = np.zeros(8), np.zeros(8), {}
    for step in range(steps):
        rng = np.random.default_rng(step)
        x = rng.normal(size=(24, 8)).astype("f4")
        y = np.tanh(x @ np.linspace(-1, 1, 8, dtype="f4")) + rng.normal(size=24, scale=0.1)
        out = np.tanh(x @ w)
        found[step + 1] = np.mean((out - y) ** 2)
        speed = 0.9 * speed - 0.1 * (2 * (out - y) * (1 - out**2)) @ x / len(x)
        w = w + speed
    return found


def check(folder, steps):
    expected = alone(steps)
    found = losses(folder)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=2e-4)


def wait_for_step(folder, step, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "losses.txt").exists() and f"\n{step} " in (folder / "losses.txt").read_text():
            return
        threading.Event().wait(0.02)
    raise AssertionError(process.communicate()[0])


def test_a_preempted_program_goes_on_with_one_process(tmp_path):
    """SIGTERM to one of two: both save at the same step, and end with 0; one goes on."""
    running = start(tmp_path, 2, 100_000)
    wait_for_step(tmp_path, 8, running)
    children = subprocess.run(
        ["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=True
    )
    os.kill(int(children.stdout.split()[1]), signal.SIGTERM)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 0, said
    saved = [int(line.split()[4]) for line in said.splitlines() if "saved at step" in line]
    assert len(saved) == 2 and saved[0] == saved[1] > 8, said
    more = start(tmp_path, 1, saved[0] + 4, 2)
    said, _ = more.communicate(timeout=120)
    assert more.returncode == 0 and f"from step {saved[0]}" in said, said
    check(tmp_path, saved[0] + 4)


SRUN = """#!/bin/bash
# What srun does with its tasks: the same program in each, with numbers, and signals for all.
shift
for i in 0 1; do
    SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost "$@" &
done
trap 'kill -TERM $(jobs -p)' TERM
wait -n || exit
wait -n
"""


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    return {**kept, "PYTHONPATH": str(ROOT), "JAX_NUM_CPU_DEVICES": "1", **more}


@pytest.mark.slow  # several launches
def test_slurm(tmp_path):
    """The batch script, with `srun` and `scontrol` that do what Slurm's do."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {
        "srun": SRUN,
        "scontrol": "#!/bin/bash\necho scontrol $@\n",
        "python": f'#!/bin/bash\nexec {sys.executable} "$@"\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    env = environment(
        PATH=f"{tools}:{os.environ['PATH']}", SLURM_JOB_ID=str(os.getpid()), SLURM_NTASKS="2"
    )
    script = subprocess.Popen(
        ["bash", CLUSTERS / "slurm.sh", tmp_path, "7"],
        cwd=ROOT,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = script.communicate(timeout=120)
    assert script.returncode == 0 and said.count("ended") == 2 and "scontrol" not in said, said
    check(tmp_path, 7)


@pytest.mark.slow  # several launches
def test_kubernetes(tmp_path):
    """What stands in the JobSet, with what Kubernetes adds; a pod that is told to end fails, and
    they are started again."""
    text = (CLUSTERS / "jobset.yaml").read_text()
    env = dict(re.findall(r'- name: ([A-Z_]+)\n +value: "?(.*?)"?\n', text))
    assert env.keys() == {"JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS", "STATUS_WHEN_LEAVING"}
    assert re.search(rf"completions: {env['JAX_NUM_PROCESSES']}\n", text)
    command = re.search(r"command: \[(.*)\]", text)[1].replace('"', "").split(", ")
    assert command[:2] == ["python", "examples/clusters/resumable.py"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def pods(steps, count):
        env.update(JAX_NUM_PROCESSES=str(count), JAX_COORDINATOR_ADDRESS=address)
        env["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
        return [
            subprocess.Popen(
                [sys.executable, *command[1:2], tmp_path, str(steps)],
                cwd=ROOT,
                env=environment(
                    **env, JOB_COMPLETION_INDEX=str(i), HOSTNAME=f"train-workers-0-{i}"
                ),
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for i in range(count)
        ]

    running = pods(100_000, 2)
    wait_for_step(tmp_path, 3, running[0])
    running[0].terminate()
    said = [p.communicate(timeout=120)[0] for p in running]
    assert [p.returncode for p in running] == [3, 3], said
    last = int(re.search(r"saved at step (\d+)", said[0])[1])
    [one] = pods(last + 2, 1)
    said, _ = one.communicate(timeout=120)
    assert one.returncode == 0 and f"from step {last}\n" in said, said
    check(tmp_path, last + 2)


RAY = '''"""A cluster of two nodes, the second of which is soon lost: actors are processes."""
import glob, multiprocessing, sys, time, types
class RayError(Exception): pass
exceptions = types.SimpleNamespace(RayError=RayError)
util = types.SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
alive = [True, True]
def init(): pass
def nodes(): return [{"Alive": a} for a in alive]
def serve(cls, pipe):
    actor = cls()
    while True:
        name, args = pipe.recv()
        pipe.send(getattr(actor, name)(*args))
class Method:
    def __init__(self, actor, name): self.actor, self.name = actor, name
    def remote(self, *args):
        self.actor.pipe.send((self.name, args))
        return self.actor
class Actor:
    def __init__(self, cls):
        self.pipe, there = multiprocessing.get_context("fork").Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=serve, args=(cls, there))
        self.process.start(); there.close()
    def __getattr__(self, name): return Method(self, name)
def remote(**options):
    def made(cls):
        handle = types.SimpleNamespace(remote=lambda: Actor(cls))
        handle.options = lambda **_: handle
        return handle
    return made
def get(what):
    if isinstance(what, list):
        if alive[1]:
            while len(glob.glob(sys.argv[1] + "/step*")) < 2: time.sleep(0.05)
            what[1].process.kill(); alive[1] = False
        return [get(w) for w in what]
    try: return what.pipe.recv()
    except EOFError: raise RayError("an actor has died") from None
def kill(actor): actor.process.kill(); actor.process.join()
'''


@pytest.mark.slow  # several launches
def test_ray(tmp_path):
    """A node is lost, and the program goes on with the other."""
    (tmp_path / "ray.py").write_text(RAY)
    env = environment(PYTHONPATH=f"{tmp_path}:{CLUSTERS}:{ROOT}", TEUCER_HEARTBEAT_TIMEOUT="3")
    done = subprocess.run(
        [sys.executable, CLUSTERS / "on_ray.py", tmp_path, "300"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=env,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "starts again" in said and "ended" in said, said
    assert re.search(r"from step [1-9]", said), said
    check(tmp_path, 300)


@pytest.mark.slow  # eleven launches
def test_a_program_killed_ten_times_has_the_same_losses(tmp_path):
    chance, steps = random.Random(0), 400
    for _ in range(10):
        n = chance.choice([1, 2, 3])
        running = start(tmp_path, n, steps, chance.choice([1, 2]))
        written = tmp_path / "losses.txt"
        before = written.stat().st_size if written.exists() else 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and running.poll() is None:
            if written.exists() and written.stat().st_size > before:
                break
            threading.Event().wait(0.05)
        threading.Event().wait(chance.random() / 2)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    running = start(tmp_path, 2, steps)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 0 and "ended" in said, said
    check(tmp_path, steps)
