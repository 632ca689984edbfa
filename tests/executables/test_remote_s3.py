"""The cache of a team on a server that speaks S3, with processes that stand for machines."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

s3fs = pytest.importorskip("s3fs", reason="comes with the extra `remote`")
pytest.importorskip("moto", reason="comes with the extra `test`")

HERE = Path(__file__).parent
SECRET = "0123456789abcdef0123456789abcdef"
PROGRAM = """
import teucer as jax, teucer.numpy as jnp
def shared(x):
    for i in range(3):
        x = jnp.tanh(x @ x + i)
    return x
print(float(jax.jit(shared)(jnp.ones((4, 4)))[0, 0]))
print([row.source for row in jax.debug.compiles() if row.function == "shared"])
"""
JOB = """
import numpy as np, teucer as jax, teucer.numpy as jnp
jax.distributed.initialize()
mesh = jax.make_mesh((2,), ("x",))
data = jax.NamedSharding(mesh, jax.P("x"))
x = jax.make_array_from_callback((4,), data, lambda index: np.arange(4.0, dtype=np.float32)[index])
for number in range(6):
    def divided(x):
        return jnp.sum(x * (number + 2))
    assert float(jax.jit(divided)(x)) == 6 * (number + 2)
sources = [row.source for row in jax.debug.compiles() if row.function == "divided"]
print("sources", *sources)
"""


class Server:
    """A server of moto's, and what processes must know of it."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.environment = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "me",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        self.files = s3fs.S3FileSystem(
            key="me",
            secret="secret",
            endpoint_url=address,
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@pytest.fixture(scope="module")
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 0.1).close()
            break
        except OSError:
            assert process.poll() is None
    yield Server(process, f"http://127.0.0.1:{port}")
    process.kill()
    process.wait()


@pytest.fixture
def bucket(server, request):
    """The name of a bucket of the test's own."""
    name = request.node.name.replace("_", "-")
    server.files.mkdir(name)
    return name


def environment(server, bucket, home, **more):
    home.mkdir(exist_ok=True)
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("TEUCER_CACHE", "JAX_COMPILATION_CACHE", "XDG_"))
    }
    return {
        **kept,
        **server.environment,
        "HOME": str(home),
        "TEUCER_CACHE_DIR": f"s3://{bucket}/cache",
        "TEUCER_CACHE_KEY": SECRET,
        **more,
    }


def run(env, *command):
    return subprocess.run(
        [sys.executable, *(command or ("-c", PROGRAM))],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )


def source(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow  # processes that load drivers
def test_two_machines_compile_once(server, bucket, tmp_path):
    assert source(run(environment(server, bucket, tmp_path / "one"))) == "['compiled']"
    assert source(run(environment(server, bucket, tmp_path / "two"))) == "['disk']"
    sealed = server.files.find(f"{bucket}/cache")
    assert sealed
    for path in sealed:
        server.files.pipe_file(path, b"")  # as a writer that ends too early leaves it
    done = run(environment(server, bucket, tmp_path / "three"))
    assert source(done) == "['compiled']" and "is not used: it is no entry" in done.stderr
    other = environment(server, bucket, tmp_path / "four", TEUCER_CACHE_KEY=SECRET[::-1])
    done = run(other)
    assert source(done) == "['compiled']" and "does not fit the key" in done.stderr
    assert SECRET not in done.stderr and SECRET[::-1] not in done.stderr


@pytest.mark.slow
def test_commands(server, bucket, tmp_path):
    one, two = (environment(server, bucket, tmp_path / name) for name in ("one", "two"))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run(one, "-m", "teucer", "cache", "warm", str(program))
    assert "uploaded 0" in source(done)  # they were uploaded while it ran
    entries = len(server.files.find(f"{bucket}/cache"))
    assert entries >= 1
    done = run(two, "-m", "teucer", "cache", "pull")
    assert f"fetched {entries}, refused 0" in source(done)
    local = {**two, "TEUCER_CACHE_DIR": ""}
    assert source(run(local)) == "['disk']"


@pytest.mark.slow
@pytest.mark.parametrize("state", ["no bucket", "gone"])
def test_without_the_store_programs_run(server, tmp_path, state):
    env = environment(server, "missing", tmp_path / "one", TEUCER_CACHE_PATIENCE="4")
    if state == "gone":
        env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    done = run(env)
    assert source(done) == "['compiled']"
    assert "UserWarning: The team's cache s3://missing/cache" in done.stderr


@pytest.mark.slow
def test_processes_at_once(server, bucket, tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment(server, bucket, tmp_path / str(number)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    said = [process.communicate(timeout=120) for process in processes]
    assert [err for _, err in said if "team's cache" in err] == []
    assert all(process.returncode == 0 for process in processes)
    assert source(run(environment(server, bucket, tmp_path / "last"))) == "['disk']"


@pytest.mark.slow
def test_a_job_divides_what_is_compiled(server, bucket, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for number in range(2):
        env = environment(server, bucket, tmp_path / str(number), JAX_NUM_CPU_DEVICES="1")
        start = f"coordinator_address='127.0.0.1:{port}', num_processes=2, process_id={number}"
        code = JOB.replace("initialize()", f"initialize({start})")
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [process.communicate(timeout=150) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    sources = [out.split("sources ")[1].split() for out, _ in said]
    assert [len(found) for found in sources] == [6, 6]
    for pair in zip(*sources, strict=True):
        assert sorted(pair) == ["compiled", "disk"]
