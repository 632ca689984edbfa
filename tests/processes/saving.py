"""What the tests of saving run in several processes.

A function and a folder, on the command line as FUNCTION:FOLDER.
"""

import sys

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer._serialization import folders
from teucer.experimental import multihost_utils
from teucer.experimental.array_serialization import pytree_serialization, serialization

P = jax.P
VALUES = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh_of(*shape):
    kinds = (jax.sharding.AxisType.Auto,) * len(shape)
    return jax.make_mesh(shape, ("x", "y")[: len(shape)], axis_types=kinds)


def tree_over(mesh):
    """Arrays of several kinds, over a mesh of two axes."""

    def put(value, spec):
        value = np.asarray(value)
        sharding = jax.NamedSharding(mesh, spec)
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    return {
        "w": put(VALUES, P("x", "y")),
        "turned": put(VALUES, P("y")),
        "all": put(VALUES.astype(jnp.bfloat16), P()),
        "step": put(np.int32(7), P()),
    }


def check(tree):
    gathered = multihost_utils.process_allgather(tree, tiled=True)
    for name in ("w", "turned", "all"):
        np.testing.assert_array_equal(np.asarray(gathered[name], np.float32), VALUES)
    assert gathered["step"] == 7


def save(folder):
    """Saved by all, loaded over other meshes; one that fails, and one that does not come, are
    errors in all."""
    n, me = jax.device_count(), jax.process_index()
    tree = tree_over(mesh_of(n // 2, 2))
    pytree_serialization.save(tree, f"{folder}/tree")
    flat = jax.NamedSharding(mesh_of(n), P("x"))
    whole = jax.NamedSharding(mesh_of(n), P())
    check(
        pytree_serialization.load(
            f"{folder}/tree", {"w": flat, "turned": whole, "all": flat, "step": whole}
        )
    )

    manager = serialization.GlobalAsyncCheckpointManager(timeout_secs=3)
    manager.serialize_with_paths(
        [tree["w"]], [f"{folder}/w"], on_commit_callback=lambda: print("committed", flush=True)
    )
    manager.wait_until_finished()
    [w] = manager.deserialize_with_paths([flat], [f"{folder}/w"])
    check({**tree, "w": w})

    written = folders.write_piece
    if me == 1:

        def full(*args):
            raise OSError(28, "No space left on device")

        folders.write_piece = full
    try:
        pytree_serialization.nonblocking_save(tree, f"{folder}/tree").result()
    except (OSError, RuntimeError) as err:
        print("failed:", err, flush=True)
    folders.write_piece = written
    check(pytree_serialization.load(f"{folder}/tree", whole))

    if me == 0:
        manager.serialize_with_paths([np.ones(3)], [f"{folder}/late"])
        try:
            manager.wait_until_finished()
        except serialization.BarrierTimeoutError as err:
            print("late:", err, flush=True)
    multihost_utils.sync_global_devices("end")


def load(folder):
    """Loads what another number of processes has saved."""
    n = jax.device_count()
    check(pytree_serialization.load(folder, jax.NamedSharding(mesh_of(n // 2, 2), P())))
    print("loaded")


if __name__ == "__main__":
    jax.distributed.initialize(initialization_timeout=60)
    function, _, folder = sys.argv[1].partition(":")
    globals()[function](folder)
