"""A runtime that calls Python by transfers, made of the CPU's: for what a TPU would run.

XLA's compiler for CPUs knows no transfers. Here each `send` and `recv` of a program's text becomes
a call of the CPU's for Python, and `Host` does what a TPU's runtime does: it gathers the operands
of a callback from their channels, calls it when all have come, and hands out the results.
"""

import collections
import re
import threading

import numpy as np

from teucer._targets.cpu.target import CPU
from teucer._xla import mlir
from teucer._xla.platforms import transfers

_TRANSFER = re.compile(
    r'^(?P<left>.*?)"stablehlo\.(?P<kind>send|recv)"\((?P<operands>.*?)\) '
    r"<\{channel_handle = #stablehlo\.channel_handle<handle = (?P<channel>\d+), "
    r"type = (?P<type>\d)>, is_host_transfer = true\}> "
    r"\{mhlo\.frontend_attributes = \{(?P<names>.*?)\}"
    r"(?:, (?P<by>sdy\.sharding.*?))?\} : "
    r"(?P<types>\((?P<takes>.*)\) -> \((?P<gives>.*)\))$"
)


class Host:
    """The host's end of the channels of one program. Each device has its own transfers."""

    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.receiving = {c: (cb, i) for cb in callbacks for i, c in enumerate(cb.sends)}
        self.sending = {c: (cb, i) for cb in callbacks for i, c in enumerate(cb.receives)}
        self.came = collections.defaultdict(dict)
        self.results = collections.defaultdict(collections.deque)
        self.lock = threading.Lock()

    def send(self, channel, device, value):
        callback, i = self.receiving[channel]
        dtype, shape = callback.operands[i]
        assert (value.dtype, value.shape) == (dtype, shape)
        with self.lock:
            came = self.came[device, callback.sends]
            assert i not in came, "a second call has begun before the first one had its operands"
            came[i] = np.copy(value)
            if len(came) < len(callback.sends):
                return
            del self.came[device, callback.sends]
        outs = callback.function(*(came[i] for i in range(len(came))))
        assert isinstance(outs, tuple) and len(outs) == len(callback.receives)
        for out, channel, (dtype, shape) in zip(
            outs, callback.receives, callback.results, strict=True
        ):
            assert (out.dtype, out.shape) == (dtype, shape)
            with self.lock:
                self.results[device, channel].append(out)

    def receive(self, channel, device):
        with self.lock:
            return self.results[device, channel].popleft()

    def at_rest(self):
        """Whether nothing is on its way."""
        return not self.came and not any(self.results.values())


def in_place(monkeypatch):
    """Have the CPU's programs call Python as a TPU's do; the hosts of the programs so far."""
    monkeypatch.setattr(CPU, "kernels", CPU.kernels._replace(python=None, transfers=True))
    monkeypatch.setattr(CPU, "keeps_callbacks", False)
    hosts, functions, parse, given = [], [], mlir.parse, transfers.for_runtime

    def for_runtime(client, callbacks):
        capsules = given(client, callbacks)
        assert all("capsule" in repr(c) for c in capsules)  # the runtime would take them
        hosts.append(Host(callbacks))
        return functions

    def rewritten(text):
        if "stablehlo.send" not in text:
            return parse(text)
        functions[:] = []
        channels = re.findall(r"channel_handle<handle = (\d+), type = [23]>", text)
        assert len(set(channels)) == len(channels), "two transfers have one channel"
        lines = [_line(line, functions, hosts[-1]) for line in text.splitlines()]
        return parse("\n".join(lines).replace("!stablehlo.token", "tensor<i1>"))

    monkeypatch.setattr(transfers, "for_runtime", for_runtime)
    monkeypatch.setattr(mlir, "parse", rewritten)
    return hosts


def _line(line, functions, host):
    if '"stablehlo.create_token"' in line:
        return (
            f'{line.partition("=")[0]}= "stablehlo.constant"() '
            "<{value = dense<false> : tensor<i1>}> : () -> tensor<i1>"
        )
    found = _TRANSFER.match(line)
    if found is None:
        assert "stablehlo.send" not in line and "stablehlo.recv" not in line, line
        return line
    channel = int(found["channel"])
    assert f'_xla_host_transfer_rendezvous = "{channel}"' in found["names"]
    assert 'handler_name = "pjrt_rendezvous"' in found["names"]
    manual = "maximal" not in (found["by"] or "")
    sends = found["kind"] == "send"
    assert found["type"] == ("2" if sends else "3")

    def call(*operands):
        *operands, device = operands if manual else (*operands, np.uint32(0))
        if sends:
            value, token = operands
            host.send(channel, int(device), value)
            return (token,)
        (token,) = operands
        return host.receive(channel, int(device)), token

    index = len(functions)
    functions.append(call)
    number = f"%device_{index}"
    operands = found["operands"] + (f", {number}" if manual else "")
    takes = found["takes"] + (", tensor<ui32>" if manual else "")
    gives = found["gives"]
    operand_layouts, result_layouts = (
        ", ".join(map(_layout, kinds.split(", "))) for kinds in (takes, gives)
    )
    by = f" {{{found['by']}}}" if found["by"] else ""
    before = f'{number} = "stablehlo.partition_id"() : () -> tensor<ui32>\n' if manual else ""
    return (
        f'{before}{found["left"]}"stablehlo.custom_call"({operands}) <{{call_target_name = '
        '"xla_ffi_python_cpu_callback", api_version = 4 : i32, has_side_effect = true, '
        f"backend_config = {{index = {index} : ui64}}, operand_layouts = [{operand_layouts}], "
        f"result_layouts = [{result_layouts}]}}>{by} : ({takes}) -> ({gives})"
    )


def _layout(kind):
    rank = len(re.findall(r"\d+x", kind.partition("<")[2])) if kind.startswith("tensor<") else 0
    order = ", ".join(map(str, reversed(range(rank))))
    return f"dense<{f'[{order}]' if rank else ''}> : tensor<{rank}xindex>"
