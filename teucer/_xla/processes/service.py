"""The coordination service as a process of its own.

`python service.py ADDRESS PROCESSES HEARTBEAT START SHUTDOWN LINGER`.

It outlives process 0, so that the others can learn that this one is gone: jaxlib aborts them at
once when the service is. It ends when its input says after how many seconds, or LINGER seconds
after its input has ended.
"""

import os
import sys
import time

from jaxlib import _jax, utils


def main() -> None:
    """Serve, as the arguments of the process say."""
    address, *numbers = sys.argv[1:]
    count, heartbeat, start, shutdown, linger = map(int, numbers)
    utils.absl_set_min_log_level(2)
    try:
        service = _jax.get_distributed_runtime_service(
            address,
            count,
            heartbeat_timeout=heartbeat,
            cluster_register_timeout=start,
            shutdown_timeout=shutdown,
            recoverable=True,
        )
    except _jax.JaxRuntimeError as err:
        print(f"refused: {err}".replace("\n", " "), flush=True)
        return
    print("serving", flush=True)
    # A reader of process 0's output would wait until this process has ended, too.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    said = sys.stdin.readline()
    time.sleep(int(said) if said else linger)
    service.shutdown()


if __name__ == "__main__":
    main()
