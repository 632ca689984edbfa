"""Arrays saved to folders and loaded.

Under any sharding, whole or not at all, and with checksums.
"""

import asyncio
import itertools
import json

import ml_dtypes
import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._serialization import folders
from teucer.experimental.array_serialization import (
    pytree_serialization,
    serialization,
    tensorstore_impl,
)
from teucer.experimental.array_serialization import pytree_serialization_utils as utils
from teucer.experimental.layout import Format, Layout

P = jax.P
X = np.arange(32.0, dtype=np.float32).reshape(8, 4)


def over(spec, shape=(4, 2)):
    axes = ("x", "y")[: len(shape)]
    return jax.NamedSharding(
        jax.make_mesh(shape, axes, axis_types=(jax.sharding.AxisType.Auto,) * len(shape)), spec
    )


PLACES = {
    "both axes": over(P("x", "y")),
    "turned": over(P("y", "x")),
    "one axis": over(P(None, "y")),
    "both along one": over(P(("y", "x"))),
    "copies": over(P()),
    "another mesh": over(P("x"), (2,)),
    "one device": jax.sharding.SingleDeviceSharding(jax.devices()[3]),
}


def path_of(folder):
    return serialization.get_tensorstore_spec(str(folder))


@pytest.mark.parametrize("old", PLACES)
def test_saved_under_one_sharding_and_loaded_under_every(tmp_path, old):
    pytree_serialization.save(jax.device_put(X, PLACES[old]), tmp_path)
    for new in PLACES.values():
        found = pytree_serialization.load(tmp_path, new)
        assert found.sharding == new
        np.testing.assert_array_equal(found, X)


DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "int4",
    "uint2",
    "float16",
    "float32",
    "bfloat16",
    "complex64",
    "float8_e4m3fn",
    "float4_e2m1fn",
]


def test_every_dtype(tmp_path):
    with jax.enable_x64(True):
        tree = {
            name: jnp.asarray(np.arange(6) % 2).astype(name)
            for name in [*DTYPES, "int64", "float64"]
        }
        pytree_serialization.save(tree, tmp_path)
        found = pytree_serialization.load(tmp_path, PLACES["one device"])
    for name, x in tree.items():
        assert (
            found[name].dtype
            == x.dtype
            == pytree_serialization.load_pytreedef(tmp_path)[name].dtype
        )
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(x))


def test_bits_are_kept(tmp_path):
    x = jnp.array([np.nan, -0.0, np.inf, 1e-45], jnp.float32)
    pytree_serialization.save(x, tmp_path)
    found = pytree_serialization.load(tmp_path, x.sharding)
    np.testing.assert_array_equal(np.asarray(found).view(np.int32), np.asarray(x).view(np.int32))


def test_edges(tmp_path):
    keys = jax.device_put(jax.random.split(jax.random.key(3, impl="rbg"), 8), over(P("x")))
    tree = [jnp.float32(2), jnp.zeros((0, 3)), None, {"keys": keys}, np.arange(3), ()]
    pytree_serialization.save(tree, tmp_path)
    found = pytree_serialization.load(tmp_path, over(P()))
    assert (
        found[0].shape == ()
        and found[0] == 2
        and found[1].shape == (0, 3)
        and found[2] is None
        and found[5] == ()
    )
    assert found[3]["keys"].dtype == keys.dtype and (found[3]["keys"] == keys).all()
    assert pytree_serialization.load_pytreedef(tmp_path)[3]["keys"].shape == (8,)
    assert found[4].tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(12, 2), (4, 6), (8, 4), (2, 0)])
def test_other_shapes_are_cut_or_filled_with_zeros(tmp_path, shape):
    serialization.run_serialization([jax.device_put(X, over(P("x", "y")))], [path_of(tmp_path)])
    where, kind = over(P(None, "y")), jnp.bfloat16
    [found] = serialization.run_deserialization([where], [path_of(tmp_path)], [shape], [kind])
    expected = np.zeros((16, 16), np.float32)
    expected[:8, :4] = X
    assert found.dtype == kind
    np.testing.assert_array_equal(np.asarray(found, np.float32), expected[tuple(map(slice, shape))])


def test_large_shards_are_cut_into_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LARGEST", 12)
    x = np.arange(2 * 1 * 5 * 3, dtype=np.int32).reshape(2, 1, 5, 3)
    pytree_serialization.save(x, tmp_path)
    assert len(list(tmp_path.glob("*.piece"))) == 10
    assert max(path.stat().st_size for path in tmp_path.glob("*.piece")) == 12
    np.testing.assert_array_equal(pytree_serialization.load(tmp_path, PLACES["one device"]), x)


def test_only_overlapping_pieces_are_read(tmp_path, monkeypatch):
    serialization.run_serialization([jax.device_put(X, over(P("x", "y")))], [path_of(tmp_path)])
    read, seen = folders.read_piece, []
    monkeypatch.setattr(
        folders, "read_piece", lambda *args: (seen.append(args[1].start), read(*args))[1]
    )
    serialization.run_deserialization([PLACES["one device"]], [path_of(tmp_path)], [(4, 2)])
    assert sorted(seen) == [(0, 0), (2, 0)]


@pytest.mark.parametrize("function", ["write_piece", "write_manifest", "_write", "remove_unnamed"])
def test_a_save_is_whole_or_not_at_all(tmp_path, monkeypatch, function):
    """Whatever call of the writing fails: one of the two trees is there, and the next save removes
    what is left over."""
    old, new = {"a": jnp.zeros(3), "b": jnp.zeros(2)}, {"a": jnp.ones(3), "b": jnp.ones(2)}
    pytree_serialization.save(old, tmp_path)
    real = getattr(folders, function)
    for failing in itertools.count():
        calls = itertools.count()

        def fails(*args, failing=failing, calls=calls):
            if next(calls) == failing:
                raise OSError("full")
            return real(*args)

        monkeypatch.setattr(folders, function, fails)
        try:
            pytree_serialization.save(new, tmp_path)
            break
        except OSError:
            found = pytree_serialization.load(tmp_path, PLACES["one device"])
            expected = 1 if function == "remove_unnamed" else 0
            assert [set(x.tolist()) for x in found.values()] == [{expected}, {expected}]
    assert failing > 0
    monkeypatch.undo()
    pytree_serialization.save(old, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_every_damage_is_found(tmp_path):
    pytree_serialization.save({"a": jnp.arange(3), "b": jnp.ones(2)}, tmp_path)
    for path in tmp_path.iterdir():
        whole = path.read_bytes()
        for damaged in (whole[:-1], b"", whole[:5] + bytes([whole[5] ^ 1]) + whole[6:]):
            path.write_bytes(damaged)
            with pytest.raises(
                ValueError, match=f"(?s){tmp_path} is damaged: .*{path.name}.*Save it again"
            ):
                pytree_serialization.load(tmp_path, PLACES["one device"])
        path.write_bytes(whole)
    path = next(tmp_path.glob("0.*.piece"))
    path.unlink()
    with pytest.raises(ValueError, match=rf"{path.name}, which its manifest names, is missing"):
        pytree_serialization.load(tmp_path, PLACES["one device"])
    later = json.loads((tmp_path / "manifest.json").read_text())
    del later["sha256"]
    later["version"] = 99
    text = json.dumps({**later, "sha256": folders._digest(later)})
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match="version 99 of the format"):
        pytree_serialization.load_pytreedef(tmp_path)


def test_two_saves_at_the_same_time_are_an_error(tmp_path, monkeypatch):
    write = folders.write_manifest

    def meanwhile(*args):
        monkeypatch.setattr(folders, "write_manifest", write)
        pytree_serialization.save(jnp.ones(3), tmp_path)
        write(*args)

    monkeypatch.setattr(folders, "write_manifest", meanwhile)
    with pytest.raises(RuntimeError, match="has been removed before the save was complete"):
        pytree_serialization.save(jnp.zeros(3), tmp_path)
    assert pytree_serialization.load(tmp_path, PLACES["one device"]).tolist() == [1, 1, 1]


def test_the_program_goes_on_while_a_save_does(tmp_path):
    step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    x = jax.device_put(X, over(P("x", "y")))
    saving = pytree_serialization.nonblocking_save({"x": x}, tmp_path)
    x = step(x).block_until_ready()
    assert saving.pytree == {"x": jax.ShapeDtypeStruct((8, 4), jnp.float32)}
    assert saving.result() is None and saving.done() and saving.exception() is None
    loading = pytree_serialization.nonblocking_load(tmp_path, over(P("y")))
    np.testing.assert_array_equal(loading.result()["x"], X)
    assert "PyTreeFuture(done=True, pytree={'x': ShapeDtypeStruct" in repr(loading)


def test_manager(tmp_path):
    manager, said = serialization.GlobalAsyncCheckpointManager(), []
    arrays, paths = (
        [jax.device_put(X, over(P("x"))), jnp.arange(3)],
        [tmp_path / "a", tmp_path / "b"],
    )
    manager.serialize_with_paths(arrays, paths, on_commit_callback=lambda: said.append(1))
    manager.wait_until_finished()
    assert said == [1]
    for gigabytes in (32, 1e-9):
        found = manager.deserialize_with_paths(
            [over(P("y")), over(P())], paths, concurrent_gb=gigabytes
        )
        for x, y in zip(arrays, found, strict=True):
            np.testing.assert_array_equal(x, y)
    manager.serialize_with_paths(arrays, paths, on_commit_callback=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        manager.wait_until_finished()
    manager.check_for_errors()
    with pytest.raises(ValueError, match="2 arrays and 1 specs"):
        manager.serialize_with_paths(arrays, paths[:1])


def test_coroutines_also_within_an_event_loop(tmp_path):
    async def go():
        await serialization.async_serialize(jnp.arange(4), path_of(tmp_path))
        serialization.run_serialization([jnp.ones(2)], [path_of(tmp_path / "b")])
        return await serialization.async_deserialize(PLACES["one device"], path_of(tmp_path))

    assert asyncio.run(go()).tolist() == [0, 1, 2, 3]


def test_formats_and_structs(tmp_path):
    turned = Format(Layout((1, 0)), PLACES["one device"])
    pytree_serialization.save({"x": X, "y": X}, tmp_path)
    struct = jax.ShapeDtypeStruct((8, 4), jnp.int32, sharding=PLACES["turned"])
    found = pytree_serialization.load(tmp_path, {"x": turned, "y": struct})
    assert found["x"].format.layout.major_to_minor == (1, 0)
    assert found["y"].dtype == jnp.int32 and found["y"].sharding == PLACES["turned"]
    np.testing.assert_array_equal(found["x"], found["y"])


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


jax.tree_util.register_pytree_node(
    Pair, lambda p: ((p.a,), p.b), lambda b, children: Pair(children[0], b)
)


def test_classes_of_trees_are_registered(tmp_path):
    with pytest.raises(
        ValueError, match=r"unregistered type .*Pair.*\n.*register_pytree_node_serialization"
    ):
        pytree_serialization.save(Pair(jnp.ones(2), 3), tmp_path)
    utils.register_pytree_node_serialization(
        Pair,
        serialized_name="test_array_serialization.Pair",
        serialize_auxdata=lambda b: json.dumps(b).encode(),
        deserialize_auxdata=json.loads,
    )
    pytree_serialization.save(Pair(jnp.ones(2), 3), tmp_path)
    found = pytree_serialization.load(tmp_path, PLACES["one device"])
    assert found.b == 3 and found.a.tolist() == [1, 1]


def test_masks_and_prefixes(tmp_path):
    pytree_serialization.save({"a": [X, X], "b": X}, tmp_path)
    found = pytree_serialization.load(
        tmp_path, {"a": PLACES["copies"], "b": None}, mask={"a": [True, False], "b": False}
    )
    assert found["a"][1] is None and found["b"] is None and found["a"][0].shape == (8, 4)
    with pytest.raises(ValueError, match="load mask"):
        pytree_serialization.load(tmp_path, PLACES["copies"], mask={"a": True})


def loaded(folder, where, shapes=None):
    return serialization.run_deserialization([where], [path_of(folder)], shapes)


def saved_while_tracing(folder):
    jax.jit(lambda x: serialization.run_serialization([x], [path_of(folder)]))(X)


ALL = PLACES["copies"]
ERRORS = [
    (
        lambda f: pytree_serialization.save([1.0], f),
        ValueError,
        r"all leaves must be either None or jax.Array-like.*\n.*1.0 of type",
    ),
    (
        lambda f: pytree_serialization.save(X, f, overwrite=False),
        ValueError,
        "you specified `overwrite=False`",
    ),
    (
        lambda f: pytree_serialization.save(np.array([None]), f),
        ValueError,
        "dtype object cannot be saved",
    ),
    (
        lambda f: pytree_serialization.load(f, None),
        TypeError,
        "sharding passed to deserialization should be specified",
    ),
    (lambda f: pytree_serialization.load(f / "no", ALL), FileNotFoundError, "no does not exist"),
    (lambda f: loaded(f / "no", ALL), FileNotFoundError, "no array has been saved"),
    (lambda f: loaded(f, over(P("x")), [(6, 4)]), ValueError, "axis 0 is partitioned 4 times"),
    (saved_while_tracing, TypeError, "only arrays can be saved"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(tmp_path, call, error, message):
    pytree_serialization.save(X, tmp_path)
    with pytest.raises(error, match=message):
        call(tmp_path)


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(
        RuntimeError,
        match=r"Refusing to work on a directory that is not a previous checkpoint.*thesis\.tex",
    ):
        pytree_serialization.save(X, tmp_path)


@pytest.mark.skipif(tensorstore_impl.installed(), reason="with tensorstore these work")
def test_what_needs_tensorstore_says_so(tmp_path):
    remote = serialization.get_tensorstore_spec("gs://bucket/x")
    for call in (
        lambda: serialization.run_serialization([X], [remote]),
        lambda: serialization.TS_CONTEXT,
        lambda: serialization.GlobalAsyncCheckpointManager().serialize([X], [remote]),
        lambda: serialization.run_deserialization([PLACES["copies"]], [remote]),
        lambda: tensorstore_impl.Transaction,
    ):
        with pytest.raises(
            ImportError, match=r"(?s)needs the package tensorstore.*pip install tensorstore"
        ):
            call()
    (tmp_path / ".zarray").write_text("{}")
    with pytest.raises(ImportError, match=r"in a format of tensorstore"):
        serialization.run_deserialization([PLACES["copies"]], [path_of(tmp_path)])


SPECS = {
    ("/tmp/x/y", False): {"driver": "file", "path": "/tmp/x/y"},
    ("/tmp/x/y", True): {
        "driver": "ocdbt",
        "base": {"driver": "file", "path": "/tmp/x"},
        "path": "y",
    },
    ("gs://b/x", False): {"driver": "gcs", "bucket": "b", "path": "x"},
    ("s3://b/x/y", True): {
        "driver": "ocdbt",
        "base": {"driver": "s3", "bucket": "b", "path": "x"},
        "path": "y",
    },
    ("rel/x", False): {"driver": "file", "path": "rel/x"},
}


@pytest.mark.parametrize(("path", "ocdbt"), SPECS)
def test_specs(path, ocdbt):
    spec = serialization.get_tensorstore_spec(path, ocdbt=ocdbt)
    assert spec == {"driver": "zarr", "kvstore": SPECS[path, ocdbt]}
    assert serialization.is_remote_storage(spec) == ("://" in path)


def test_specs_of_arrays():
    x = jax.device_put(X.astype(ml_dtypes.bfloat16), over(P("x", "y")))
    spec = serialization.get_tensorstore_spec("/tmp/x/y", process_idx=3, arr=x)
    assert spec["kvstore"]["path"] == "/tmp/x/process_3/y"
    assert spec["metadata"] == {"compressor": {"id": "zstd"}, "shape": (8, 4), "chunks": [2, 2]}
    spec = serialization.get_tensorstore_spec("/tmp/y", arr=x, driver="zarr3")
    tensorstore_impl.verify_tensorstore_spec(spec, x, "/tmp/y", ocdbt=False)
    for wrong, message in (
        (("/tmp/z", False), "does not match the spec path"),
        (("/tmp/y", True), "ocdbt is True"),
    ):
        with pytest.raises(ValueError, match=message):
            tensorstore_impl.verify_tensorstore_spec(spec, x, *wrong)
    with pytest.raises(ValueError, match="shape"):
        tensorstore_impl.verify_tensorstore_spec(spec, x[:2], "/tmp/y", False)
    for path, message in (
        ("gs://b", "should contain the bucket name"),
        ("rel/x", "should be absolute"),
    ):
        with pytest.raises(ValueError, match=message):
            serialization.get_tensorstore_spec(path, ocdbt="rel" in path)
    with pytest.raises(ValueError, match="Unsupported driver: n5"):
        serialization.get_tensorstore_spec("/tmp/x", driver="n5", arr=x)


def test_tensorstore_writes_what_it_reads(tmp_path):
    pytest.importorskip(
        "tensorstore", reason="tensorstore is not installed; its formats are optional"
    )
    for driver, kind in itertools.product(("zarr", "zarr3"), ("float32", "bfloat16", "int4")):
        x = jax.device_put(X.astype(kind), over(P("x", "y")))
        spec = serialization.get_tensorstore_spec(f"{tmp_path}/{driver}{kind}", driver=driver)
        serialization.run_serialization([x], [spec])
        [found] = serialization.run_deserialization([over(P("y"))], [spec], [(12, 4)])
        np.testing.assert_array_equal(np.asarray(found)[:8], np.asarray(x))
    assert list(tmp_path.glob("zarrfloat32/.zarray"))
