"""The program of `resumable.py` by the actors of a Ray cluster, as many as there are nodes.

    python examples/clusters/on_ray.py FOLDER STEPS

A node that is lost takes its actor with it, and the others end. All are started again, on the nodes
that are left, and go on from the last state that was saved.
"""

import socket
import sys

import ray

RESTARTS = 100


@ray.remote(max_restarts=0)
class Worker:
    """One process of the program."""

    def address(self):
        """Where the coordinator may listen, if it is this one."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def train(self, address, count, number, folder, steps):
        import resumable  # beside this file

        import teucer as jax

        jax.distributed.initialize(address, count, number)
        return resumable.main(folder, steps)


def attempt(folder, steps):
    """Train on the nodes that are there; whether it came to the last step."""
    count = sum(node["Alive"] for node in ray.nodes())
    workers = [Worker.options(scheduling_strategy="SPREAD").remote() for _ in range(count)]
    try:
        address = ray.get(workers[0].address.remote())
        runs = [w.train.remote(address, count, i, folder, steps) for i, w in enumerate(workers)]
        return all(ray.get(runs))
    except ray.exceptions.RayError as err:
        print("starts again:", err)
        return False
    finally:
        for worker in workers:
            ray.kill(worker)


if __name__ == "__main__":
    ray.init()
    if not any(attempt(sys.argv[1], int(sys.argv[2])) for _ in range(RESTARTS)):
        sys.exit("too many restarts")
