"""The cache of a team: what is trusted, how long is waited, and that its faults cost a warning."""

import errno
import http.server
import os
import pickle
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import teucer as jax
from teucer._base import config
from teucer._executables import compile, disk_cache
from teucer._executables.remote import client, counts, envelopes, keys, stores
from teucer.cli import _run, main

SECRET = "0123456789abcdef0123456789abcdef"
OTHER = SECRET[::-1]
NAME = "ab" * 32 + ".xla"
ADDRESS = "s3://user:password@team/cache?token=abc"


class FakeStore:
    """A store in memory. fault: is called before each operation with its name."""

    writable = True

    def __init__(self):
        self.data, self.asked = {}, []
        self.fault = lambda what: None

    def get(self, name, most, received):
        self.asked.append(name)
        self.fault("get")
        return self.data.get(name)

    def put(self, name, data):
        self.fault("put")
        self.data[name] = data

    def sizes(self):
        self.fault("sizes")
        return {name: len(data) for name, data in self.data.items()}


@pytest.fixture
def store(monkeypatch, tmp_path):
    """The store of a team, with which two folders stand for two machines."""
    fake = FakeStore()
    monkeypatch.setattr(stores, "open_store", lambda address, seconds: fake)
    monkeypatch.setattr(client, "_remotes", {})
    monkeypatch.setattr(disk_cache, "_uncounted", {})
    monkeypatch.setenv(keys.KEY, SECRET)
    monkeypatch.delenv(keys.KEY_FILE, raising=False)
    with (
        config.cache_remote(ADDRESS),
        config.enable_compilation_cache(True),
        config.cache_dir(str(tmp_path / "one")),
    ):
        yield fake
        with config.cache_patience(5.0):
            for remote in filter(None, client._remotes.values()):
                remote._unsaid.clear()
            client.flush()
    compile.clear_memory()


def on_machine(folder):
    """Where compiled programs come from in a new process of another machine."""
    client._remotes.clear()
    compile.clear_memory()
    with config.cache_dir(str(folder)):
        jax.debug.compiles().clear()

        def shared(x):
            return x * 3 + 1

        assert float(jax.jit(shared)(np.float32(2))) == 7
        for remote in filter(None, client._remotes.values()):
            assert remote.flush(20)
            remote.save_counts()
    return [row.source for row in jax.debug.compiles() if row.function == "shared"]


def counted(folder):
    return counts.read(folder, ADDRESS)


def test_two_machines_compile_once(store, tmp_path):
    assert on_machine(tmp_path / "one") == ["compiled"]
    assert len(store.data) == 1
    assert on_machine(tmp_path / "two") == ["disk"]
    assert on_machine(tmp_path / "two") == ["disk"]  # by itself
    assert len(store.asked) == 2
    assert counted(tmp_path / "one") == (0, 1, 1, 0)
    assert counted(tmp_path / "two") == (1, 0, 0, 0)
    (entry,) = disk_cache.entries(tmp_path / "two")
    assert entry.read_bytes() == (tmp_path / "one" / entry.name).read_bytes()


def tampered(data):
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "spoil, why",
    [
        (tampered, "checksum does not fit"),
        (lambda data: data[:-7], "checksum does not fit"),
        (lambda data: data[:20], "it is no entry"),
        (lambda data: b"", "it is no entry"),
        (lambda data: os.urandom(5000), "it is no entry"),
    ],
    ids=["tampered", "truncated", "cut", "empty", "garbage"],
)
def test_damaged_entries_are_refused_and_replaced(store, tmp_path, spoil, why):
    on_machine(tmp_path / "one")
    ((name, good),) = store.data.items()
    store.data[name] = spoil(good)
    with pytest.warns(UserWarning, match=why):
        assert on_machine(tmp_path / "two") == ["compiled"]
    assert counted(tmp_path / "two") == (0, 0, 1, 1)
    assert on_machine(tmp_path / "three") == ["disk"]


@pytest.mark.parametrize(
    "key, why", [(None, "it is not signed"), (OTHER, "signature does not fit")]
)
def test_entries_of_others_are_never_loaded(store, tmp_path, monkeypatch, key, why):
    on_machine(tmp_path / "one")
    ((name, good),) = store.data.items()
    content = envelopes.opened(name, good, keys.Key(SECRET.encode()), False)
    own = None if key is None else keys.Key(key.encode())
    store.data[name] = envelopes.sealed(name, content, own)
    loaded = []
    monkeypatch.setattr(compile.xla, "deserialize", lambda *args: loaded.append(args))
    with pytest.warns(UserWarning, match=why):
        assert on_machine(tmp_path / "two") == ["compiled"]
    assert not loaded


def test_an_entry_does_not_stand_for_another():
    key = keys.Key(SECRET.encode())
    data = envelopes.sealed(NAME, b"code", key)
    assert envelopes.opened(NAME, data, key, False) == b"code"
    with pytest.raises(envelopes.Refused, match="checksum"):
        envelopes.opened(NAME.replace("a", "c"), data, key, False)


@pytest.mark.parametrize("position", range(envelopes.OVERHEAD + 4))
def test_each_byte_counts(position):
    key = keys.Key(SECRET.encode())
    data = bytearray(envelopes.sealed(NAME, b"code", key))
    data[position] ^= 1
    for unsigned in (False, True):
        with pytest.raises(envelopes.Refused):
            envelopes.opened(NAME, bytes(data), key, unsigned)


def test_a_signature_cannot_be_left_out():
    key = keys.Key(SECRET.encode())
    data = envelopes.sealed(NAME, b"code", None)
    with pytest.raises(envelopes.Refused, match="not signed"):
        envelopes.opened(NAME, data, key, False)
    with pytest.raises(envelopes.Refused, match="no key"):
        envelopes.opened(NAME, data, None, False)
    assert envelopes.opened(NAME, data, key, True) == b"code"
    assert envelopes.opened(NAME, data, None, True) == b"code"


def test_without_a_key_nothing_is_asked_or_uploaded(store, tmp_path, monkeypatch):
    monkeypatch.delenv(keys.KEY)
    with pytest.warns(
        UserWarning, match="(?s)is not used.*TEUCER_CACHE_KEY_FILE.*UNSIGNED"
    ) as said:
        assert on_machine(tmp_path / "one") == ["compiled"]
    assert len(said) == 1 and not store.asked and not store.data
    with config.cache_unsigned(True):
        assert on_machine(tmp_path / "two") == ["compiled"]
        assert on_machine(tmp_path / "three") == ["disk"]


def test_an_entry_that_does_not_load_is_replaced(store, tmp_path):
    on_machine(tmp_path / "one")
    (name,) = store.data
    store.data[name] = good = envelopes.sealed(name, bytes(64), keys.Key(SECRET.encode()))
    assert on_machine(tmp_path / "two") == ["compiled"]
    assert store.data[name] != good  # compiled a second time, and uploaded
    assert on_machine(tmp_path / "three") == ["disk"]


def fails(error):
    def fault(what):
        raise error

    return fault


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("gone"),
        PermissionError(errno.EACCES, "denied"),
        OSError(errno.ENOSPC, "507 Insufficient Storage"),
        RuntimeError("as drivers raise"),
    ],
    ids=["gone", "denied", "full", "driver"],
)
def test_faults_cost_one_warning_each(store, tmp_path, error):
    store.fault = fails(error)
    with pytest.warns(UserWarning, match="reading fails|writing fails") as said:
        assert on_machine(tmp_path / "one") == ["compiled"]
    assert [re.search("(reading|writing) fails", str(w.message))[1] for w in said] == [
        "reading",
        "writing",
    ]
    assert not [w for w in said if "password" in str(w.message) or "abc" in str(w.message)]


def test_a_store_that_fails_is_asked_no_more(store):
    store.fault = fails(ConnectionError("gone"))
    remote = client.current()
    names = [f"{number:064x}.xla" for number in range(10)]
    with pytest.warns(UserWarning, match="reading fails") as said:
        assert [remote.fetch(name) for name in names] == [None] * 10
    assert len(said) == 1 and len(store.asked) == 3


def test_a_store_that_hangs_costs_the_patience(store):
    released, start = threading.Event(), time.monotonic()
    store.fault = lambda what: released.wait(60)
    try:
        with config.cache_patience(0.3):
            remote = client.current()
            with pytest.warns(UserWarning, match="does not answer"):
                assert [remote.fetch(NAME) for _ in range(5)] == [None] * 5
            remote.upload(NAME, b"code")
            with pytest.warns(UserWarning, match="programs that were not uploaded: 1"):
                assert not remote.flush(0.1)
        assert time.monotonic() - start < 20
        assert len(store.asked) == 1
    finally:
        released.set()


def test_vain_waits_add_up(store, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(client, "monotonic", lambda: now[0])

    def slow(what):
        now[0] += 0.9

    store.fault = slow
    remote = client.current()
    names = [f"{number:064x}.xla" for number in range(9)]
    with config.cache_patience(3.0), pytest.warns(UserWarning, match="waited in vain"):
        assert [remote.fetch(name) for name in names] == [None] * 9
    assert len(store.asked) == 4


def test_time_of_compiling_gives_patience(store):
    remote = client.current()
    with config.cache_patience(1.0):
        remote._vain = 1.5
        remote.compiled(10.0)
        assert remote._allowed() == pytest.approx(0.5)


def test_an_upload_that_finds_no_place_is_said(store, monkeypatch):
    released = threading.Event()
    store.fault = lambda what: released.wait(60)
    monkeypatch.setattr(client, "_QUEUE", 2)
    remote = client.current()
    told = []
    for number in range(4):
        remote.upload(f"{number:064x}.xla", b"code", told.append)
    assert told == [False, False]
    released.set()
    with pytest.warns(UserWarning, match="programs that were not uploaded: 2"):
        assert remote.flush(20)
    assert told == [False, False, True, True] and len(store.data) == 2


def test_errors_are_raised_where_an_option_says_so(store):
    store.fault = fails(ConnectionError("gone"))
    with (
        config.raise_persistent_cache_errors(True),
        pytest.raises(OSError, match="reading fails: ConnectionError: gone"),
    ):
        client.current().fetch(NAME)


def test_threads_share_one_store(store):
    remote = client.current()
    for number in range(16):
        remote.upload(f"{number:064x}.xla", bytes([number]))
    assert remote.flush(20)
    found = {}

    def work(number):
        found[number] = remote.fetch(f"{number:064x}.xla")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {number: bytes([number]) for number in range(16)}
    assert remote._counts == (16, 0, 0, 0)  # uploads are in the file already


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_begins_anew():
    code = f"""
import os, warnings
warnings.simplefilter("ignore")
os.environ["TEUCER_CACHE_KEY"] = {SECRET!r}
from teucer._base import config
from teucer._executables.remote import client, stores
config.cache_remote.set_everywhere("s3://team")
parent = client.current()
client._making.acquire()  # as another thread of the parent could have
pid = os.fork()
if pid == 0:
    os._exit(int(client.current() is parent or client.current() is None))
print(os.waitpid(pid, 0)[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\n"


def test_keys(tmp_path, monkeypatch):
    monkeypatch.delenv(keys.KEY, raising=False)
    monkeypatch.delenv(keys.KEY_FILE, raising=False)
    assert keys.team_key() is None
    file = tmp_path / "key"
    monkeypatch.setenv(keys.KEY_FILE, str(file))
    with pytest.raises(keys.UnusableKey, match="No such file"):
        keys.team_key()
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    found = keys.team_key()
    assert found.signature(b"a", b"b") == keys.Key(SECRET.encode()).signature(b"a", b"b")
    assert SECRET not in repr(found) + str(vars(type(found)))
    with pytest.raises(TypeError):
        pickle.dumps(found)
    file.chmod(0o622)
    with pytest.raises(keys.UnusableKey, match="others may write"):
        keys.team_key()
    monkeypatch.setenv(keys.KEY, "short")
    with pytest.raises(keys.UnusableKey, match="fewer than 16") as caught:
        keys.team_key()
    assert "short" not in str(caught.value)


@pytest.mark.parametrize(
    "address, seen",
    [
        ("s3://team/cache", "s3://team/cache"),
        ("ftp://me:secret@host/a", "ftp://...@host/a"),
        ("https://host/a?token=secret", "https://host/a?..."),
    ],
)
def test_addresses_are_shown_without_secrets(address, seen):
    assert stores.shown(address) == seen
    said = stores.shown(f"cannot reach {address} now", address)
    assert "secret" not in said and "now" in said


def test_an_address_leaves_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with config.cache_dir("s3://bucket/cache"):
        assert disk_cache.cache_dir() == tmp_path / "teucer"
        assert disk_cache.remote_address() == "s3://bucket/cache"
    with config.cache_dir(str(tmp_path)):
        assert disk_cache.remote_address() is None
        with config.cache_remote("gs://bucket"):
            assert disk_cache.cache_dir() == tmp_path
            assert disk_cache.remote_address() == "gs://bucket"


def test_who_has_none_loads_nothing(tmp_path):
    code = """
import sys, teucer as jax
jax.jit(lambda x: x * 5 + 2)(1.0)
print([m for m in sys.modules if "_executables.remote" in m or m == "fsspec"])
"""
    env = {**os.environ, "TEUCER_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout == "[]\n"


def test_missing_drivers_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(stores.Unusable, match="pip install fsspec s3fs"):
        stores.open_store("s3://team/cache", 1.0)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, for who has the password."""

    def do_GET(self):
        if self.headers.get("Authorization") != "Basic bWU6c2VjcmV0":
            self.send_error(403)
        else:
            super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """The address of a web server of a folder."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Here(Handler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Here)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_web_servers_are_read(web):
    folder, host = web
    (folder / NAME).write_bytes(b"x" * (3 << 20))
    reading = stores.open_store(f"http://me:secret@{host}/", 5.0)
    sizes = []
    assert reading.get(NAME, 1 << 30, sizes.append) == b"x" * (3 << 20)
    assert sum(sizes) == 3 << 20
    assert reading.get(NAME.replace("a", "c"), 1 << 30, sizes.append) is None
    assert list(reading.sizes()) == [NAME]
    assert not reading.writable
    with pytest.raises(PermissionError):
        reading.put(NAME, b"")
    with pytest.raises(OSError, match="more bytes than the cache may have"):
        reading.get(NAME, 1 << 20, sizes.append)
    with pytest.raises(OSError, match="403"):
        stores.open_store(f"http://{host}", 5.0).get(NAME, 1 << 30, sizes.append)


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (1 << 20) + 1, (9 << 20) + 3])
def test_file_systems_keep_every_size(tmp_path, size):
    pytest.importorskip("fsspec", reason="comes with the extra `remote`")
    files = stores.open_store(f"file://{tmp_path}/below/there", 5.0)
    data, told = os.urandom(size), [].append
    assert files.sizes() == {} and files.get(NAME, 1 << 30, told) is None
    files.put(NAME, data)
    assert files.get(NAME, 1 << 30, told) == data
    assert files.sizes() == {NAME: size}
    assert [path.name for path in (tmp_path / "below" / "there").iterdir()] == [NAME]
    if size > 1 << 20:
        with pytest.raises(OSError, match="more than the cache may have"):
            files.get(NAME, 1 << 20, told)


# The command


def test_push_pull_and_stats(store, tmp_path, capsys):
    with config.cache_remote(None):
        on_machine(tmp_path / "one")
    assert main(["cache", "push"]) == 0
    assert capsys.readouterr().out == "s3://...@team/cache?...: uploaded 1\n"
    assert main(["cache", "push"]) == 0
    assert capsys.readouterr().out == "s3://...@team/cache?...: uploaded 0\n"
    (name,) = store.data
    with config.cache_dir(str(tmp_path / "two")):
        assert main(["cache", "pull"]) == 0
        assert capsys.readouterr().out == "s3://...@team/cache?...: fetched 1, refused 0\n"
        assert [path.name for path in disk_cache.entries(tmp_path / "two")] == [name]
        assert main(["cache", "stats"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
        table = {name: numbers for name, *numbers in rows}
        assert table["entries"] == ["1", "1"] and table["hits"] == ["0", "1"]
        assert table["fetched"] == ["1"] and table["refused"] == ["0"]
    store.data[name] = tampered(store.data[name])
    with config.cache_dir(str(tmp_path / "three")):
        assert main(["cache", "pull"]) == 1
        assert "is refused: it is damaged" in capsys.readouterr().out
        assert disk_cache.entries(tmp_path / "three") == []
    assert main(["cache", "--clear"]) == 0
    assert not list((tmp_path / "one").iterdir())


def test_warm_uploads_what_was_found_here_too(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # which stays for the process
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, teucer as jax\nprint(jax.jit(lambda x: x * 7 + 3)(float(sys.argv[1])))\n"
    )
    with config.cache_remote(None):
        assert main(["cache", "warm"]) == 2
        assert main(["run", str(program), "1"]) == 0
    compile.clear_memory()
    assert main(["cache", "warm", str(program), "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "17.0",
        "s3://...@team/cache?...: uploaded 1",
    ]
    assert len(store.data) == 1


def test_commands_say_what_is_wrong(store, tmp_path, capsys, monkeypatch):
    store.fault = fails(ConnectionError("gone"))
    for action in ("push", "pull"):
        assert main(["cache", action]) == 2
        assert "after 0 entries: ConnectionError: gone" in capsys.readouterr().err
    assert main(["cache", "stats"]) == 0
    assert "cannot be listed: ConnectionError: gone" in capsys.readouterr().out
    monkeypatch.delenv(keys.KEY)
    assert main(["cache", "push"]) == 2
    assert "Give all of the team one key" in capsys.readouterr().err
    with config.cache_remote(None):
        assert main(["cache", "push"]) == 2
    assert "there is no cache of a team" in capsys.readouterr().err
