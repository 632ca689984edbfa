"""Training that outlives its processes: it saves itself, and goes on with another number of them.

    teucer launch -n 4 examples/clusters/resumable.py FOLDER STEPS

All processes share the folder. The state is saved every few steps, and before a process is taken
away: a cluster says that by SIGTERM, and all processes then save at the same step and end with
status 0. Started again, on any number of devices that divides the batch, the program goes on from
the last state that was saved whole. The batch of a step depends on the step's number alone, so the
losses are those of a run that nothing has ended. They stand in FOLDER/losses.txt; FOLDER/ended says
that there are no more.

STATUS_WHEN_LEAVING is the status of a run that has left early, for clusters that start again only
what has failed.
"""

import functools
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import multihost_utils
from teucer.experimental.array_serialization import pytree_serialization

BATCH, FEATURES, EVERY, KEPT = 24, 8, 5, 2


def batch_of(step):
    """The same numbers, whoever asks."""
    rng = np.random.default_rng(step)
    x = rng.normal(size=(BATCH, FEATURES)).astype(np.float32)
    noise = rng.normal(size=BATCH, scale=0.1).astype(np.float32)
    return x, np.tanh(x @ np.linspace(-1, 1, FEATURES, dtype=np.float32)) + noise


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, x, y):
    """Momentum on the mean square."""

    def loss(w):
        return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    value, gradient = jax.value_and_grad(loss)(state["w"])
    speed = 0.9 * state["speed"] - 0.1 * gradient
    return {"w": state["w"] + speed, "speed": speed}, value


class Checkpoints:
    """States in folders that are called by their steps."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def steps(self):
        """Which are there, the last first. One that a crash has cut short is not."""
        found = [re.fullmatch(r"step(\d+)", p.name) for p in self.folder.glob("step*")]
        return sorted((int(m[1]) for m in found if m and self.is_whole(m[0])), reverse=True)

    def is_whole(self, name):
        try:
            pytree_serialization.load_pytreedef(self.folder / name)
        except (OSError, ValueError):
            return False
        return True

    def load(self, start, sharding):
        """The last state, and its step: process 0 looks which that is; `start` if there is none."""
        here = self.steps()[:1] if jax.process_index() == 0 else []
        step = int(multihost_utils.broadcast_one_to_all(np.int32(here[0] if here else -1)))
        if step < 0:
            return jax.device_put(start, sharding), 0
        return pytree_serialization.load(self.folder / f"step{step}", sharding), step

    def save(self, state, step):
        pytree_serialization.save(state, self.folder / f"step{step}")
        if jax.process_index() == 0:
            for old in self.steps()[KEPT:]:
                shutil.rmtree(self.folder / f"step{old}")


def main(folder, steps):
    """Train up to a step; whether it came to that."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, everywhere = jax.NamedSharding(mesh, jax.P("data")), jax.NamedSharding(mesh, jax.P())
    checkpoints = Checkpoints(folder)
    zeros = np.zeros(FEATURES, np.float32)
    state, step = checkpoints.load({"w": zeros, "speed": zeros}, everywhere)
    print("from step", step, flush=True)
    while step < steps:
        x, y = (
            jax.make_array_from_callback(whole.shape, rows, lambda part, whole=whole: whole[part])
            for whole in batch_of(step)
        )
        state, loss = train_step(state, x, y)
        step += 1
        if jax.process_index() == 0:
            with (Path(folder) / "losses.txt").open("a") as losses:
                print(step, float(loss), file=losses)
        leaving = multihost_utils.reached_preemption_sync_point(step)
        if leaving or step % EVERY == 0 or step == steps:
            checkpoints.save(state, step)
        if leaving:
            print("saved at step", step, "and leaves", flush=True)
            return False
    if jax.process_index() == 0:
        (Path(folder) / "ended").touch()
    print("ended", flush=True)
    return True


if __name__ == "__main__":
    jax.distributed.initialize()
    if not main(sys.argv[1], int(sys.argv[2])):
        sys.exit(int(os.environ.get("STATUS_WHEN_LEAVING", "0")))
