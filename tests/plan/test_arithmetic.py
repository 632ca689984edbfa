"""What plans are made of, on the texts of small programs: neither compilers nor devices are needed.

The texts of tests/plan/data are what libtpu 0.0.52 made of programs of ours for v5e.
"""

from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._derived import hlo_text as hlo
from teucer._plan import buffers, loops, machines, work
from teucer._plan.chips import BY_NAME, CHIPS
from teucer._plan.network import Network, sent
from teucer._plan.products import products_of
from teucer._plan.timeline import Timeline

DATA = Path(__file__).parent / "data"
V5E = BY_NAME["v5e"]


class Device:
    """A device of a topology, as plugins describe it."""

    def __init__(self, number, coords):
        self.id, self.coords, self.core_on_chip, self.slice_index = number, list(coords), 0, 0


def torus(*sizes):
    """Devices of a slice, the first axis the fastest, as libtpu numbers them."""
    x, y, z = (*sizes, 1, 1)[:3]
    places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    return [Device(number, place) for number, place in enumerate(places)]


def module(name):
    return hlo.Module((DATA / f"{name}.hlo").read_text())


@pytest.mark.parametrize(
    ("name", "topology"),
    [
        ("v5e-256", "v5e:16x16"),
        ("v5litepod-16", "v5e:4x4"),
        ("v5p-128", "v5p:4x4x4"),
        ("v4-8", "v4:2x2x1"),
        ("v6e-8", "v6e:2x4"),
        ("v5e:4x8", "v5e:4x8"),
        ("v5p", "v5p:2x2x1"),
        ("tpu7x-8", "tpu7x:2x2x1"),
    ],
)
def test_names(name, topology):
    assert machines.machine(name).topology == topology


def test_slices_and_gpus():
    assert machines.machine("4xv5e-256").options == (("num_slices", 4),)
    assert machines.machine("h100-16").options == (("topology", "1x2x8"),)
    assert machines.machine("v4-8").options == (("chip_config_name", "megacore"),)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("v5x-4", "'v5x-4' names no accelerator.*Did you mean"),
        ("", "names no accelerator"),
        ("v5e-5", "no slice 'v5e-5'. Near it are v5e-1, v5e-4, v5e-8"),
        ("v5p-127", "no slice"),
        ("h100-12", "no whole number of machines"),
    ],
)
def test_names_that_are_none(name, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        machines.machine(name)


def test_meshes_of_the_command_line():
    assert machines.mesh_sizes(" data=32, model=8") == {"data": 32, "model": 8}
    with pytest.raises(ValueError, match="cannot read the mesh at 'data'"):
        machines.mesh_sizes("data")
    with pytest.raises(ValueError, match="two axes 'a'"):
        machines.mesh_sizes("a=2,a=2")
    with pytest.raises(ValueError, match="(?s)has 6 places, and v5e-4 has 4 devices.*model=2 it"):
        machines.check_mesh({"model": 3, "data": 2}, 6 - 2, "v5e-4")


def test_chips_say_where_their_figures_come_from():
    """The clock is the peak over what matrix units do a cycle: a power of two of operations."""
    for chip in CHIPS:
        assert chip.source.startswith("https://")
        if chip.torus:
            a_cycle = chip.peak * chip.devices / chip.clock / (2 * 128 * 128)
            assert abs(a_cycle - 2 ** round(a_cycle).bit_length() / 2) < 0.02 * a_cycle


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_rings_and_lines(kind):
    """A ring of 16 sends both ways, a line of 8 at half the speed; a box along all of its axes."""
    net = Network(V5E, torus(16, 16))
    ring, line, box = net.way(range(16)), net.way(range(8)), net.way(range(256))
    assert (ring.axes, ring.bandwidth) == (("x",), 2 * V5E.link)
    assert line.bandwidth == V5E.link
    assert (box.axes, box.bandwidth) == (("x", "y"), 4 * V5E.link)
    size = 1 << 30
    for way in (ring, line, box):
        taken = net.seconds(kind, size, way)
        assert taken == pytest.approx(sent(kind, size, way.devices) / way.bandwidth, rel=1e-2)


def test_which_axes_close():
    assert [Network(BY_NAME["v5p"], torus(4, 4, 8)).closes(i) for i in range(3)] == [True] * 3
    assert not Network(BY_NAME["v5p"], torus(2, 2, 4)).closes(2)
    assert not Network(V5E, torus(4, 4)).closes(0)
    assert [Network(V5E, torus(8, 16)).closes(i) for i in range(2)] == [False, True]


def test_groups_that_are_no_box():
    """Of two devices across a square, the messages take two links, which others use as well."""
    assert Network(V5E, torus(2, 2)).way([0, 3]).bandwidth == V5E.link


def test_permutations():
    net = Network(V5E, torus(4, 4))
    size = 45_000_000
    seconds, way = net.permute(size, [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert way.hops == 3  # a line does not close
    assert seconds == pytest.approx(size / V5E.link, rel=0.01)
    closed = Network(V5E, torus(16, 16))
    assert closed.permute(size, [(15, 0)])[1].hops == 1
    # Rings that close are sent round both ways at once.
    ring = [(i, (i + 1) % 16) for i in range(16)]
    assert closed.permute(size, ring)[1].busy == ("x+",)
    assert closed.permute(size, [(b, a) for a, b in ring])[1].busy == ("x-",)
    assert way.busy == ("x+", "x-")


def test_all_to_all():
    """A quarter of an all-gather, on a ring."""
    net = Network(V5E, torus(16, 16))
    way = net.way(range(16))
    whole = 1 << 28
    gathered = net.seconds("all-gather", whole // 16, way)
    assert net.seconds("all-to-all", whole // 16, way) == pytest.approx(gathered / 4, rel=0.08)


def test_tiles_and_memories():
    found = work.arrays("(bf16[3,100]{1,0:T(8,128)(2,1)}, f32[8,128]{1,0:T(8,128)S(1)}, s32[])")
    assert [(a.size, a.space) for a in found] == [(2 * 8 * 128, 0), (4 * 8 * 128, 1), (4, 0)]
    assert work.memory_size("f32[8,128]{1,0:T(8,128)S(1)}") == 0


def test_products_of_batches_are_convolutions():
    """libtpu writes them so; padding is not counted, and the time is what libtpu says."""
    found = module("product_of_batches")
    root = found.entry.root
    done = work.Worker(found, V5E).work(root, found.entry)
    assert done.products == 2 * 4 * 16 * 1024 * 1024 * 128
    assert done.seconds == 977488 / V5E.clock
    assert done.bytes == 4 * 16 * 1024 * (128 + 1024) * 2  # one operand is in the core's memory


BATCH, WIDTH, HIDDEN = 16384, 8192, 32768


def test_tensor_parallel_products():
    """gelu(x w1) w2, the hidden units over 16 chips: a sixteenth of the operations, and a sum of
    the result over all of them, which nothing overlaps."""
    line = Timeline(module("mlp_tensor_16"), Network(V5E, torus(4, 4)))
    products = sum(row.products * row.times for row in line.rows)
    assert products == 4 * BATCH * WIDTH * HIDDEN / 16
    [collective] = [row for row in line.rows if row.kind == "collective"]
    assert (collective.opcode, collective.bytes) == ("all-reduce", 2 * BATCH * WIDTH)
    assert collective.waited == pytest.approx(collective.seconds)
    assert collective.seconds == pytest.approx(
        2 * 15 / 16 * 2 * BATCH * WIDTH / (2 * V5E.link), rel=0.01
    )
    ideal = products / V5E.peak + collective.seconds
    assert ideal < line.seconds < 1.1 * ideal
    assert line.seconds == pytest.approx(sum(row.waited * row.times for row in line.rows))


def test_collectives_that_are_fused_with_work_count_once():
    """x over 4, the parameters over 4 x 4: w1 goes round, w2 is gathered beside the first product,
    the result is summed. The text has the gather in four fusions."""
    line = Timeline(module("mlp_fsdp_4_tensor_4"), Network(V5E, torus(4, 4)))
    rows = {row.opcode: row for row in line.rows if row.kind == "collective"}
    permutes = [row for row in line.rows if row.opcode == "collective-permute"]
    assert sum(row.sent for row in permutes) == 3 * 2 * WIDTH * HIDDEN / 16
    assert rows["all-gather"].sent == 3 * 2 * HIDDEN * WIDTH / 16
    assert rows["all-reduce"].bytes == 2 * BATCH * WIDTH / 4
    assert len([row for row in line.rows if row.opcode == "all-gather"]) == 1
    gather = rows["all-gather"]
    assert gather.waited < 0.05 * gather.seconds


LOOP = """HloModule loop, is_scheduled=true

%add (a: s32[], s: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %s = s32[] constant(2)
  ROOT %r = s32[] add(%a, %s)
}

%body (state: (s32[], f32[1024,1024])) -> (s32[], f32[1024,1024]) {
  %state = (s32[], f32[1024,1024]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[1024,1024] get-tuple-element(%state), index=1
  %next = s32[] fusion(%i), kind=kLoop, calls=%add
  %y = f32[1024,1024] add(%x, %x)
  ROOT %out = (s32[], f32[1024,1024]) tuple(%next, %y)
}

%condition (state.1: (s32[], f32[1024,1024])) -> pred[] {
  %state.1 = (s32[], f32[1024,1024]) parameter(0)
  %n = s32[] constant(13)
  %i.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %less = pred[] compare(%i.1, %n), direction=LT
}

ENTRY %main (p: f32[1024,1024]) -> f32[1024,1024] {
  %p = f32[1024,1024] parameter(0)
  %from = s32[] constant(3)
  %tuple = (s32[], f32[1024,1024]) tuple(%from, %p)
  %loop = (s32[], f32[1024,1024]) while(%tuple), condition=%condition, body=%body
  ROOT %result = f32[1024,1024] get-tuple-element(%loop), index=1
}
"""


def test_loops_turn_as_often_as_their_counters_say():
    """libtpu says no count: from 3 up to 13 by 2 are five turns."""
    found = hlo.Module(LOOP)
    loop = found.entry.instructions["loop"]
    assert loops.turns(found, loop) == 5
    line = Timeline(found, Network(V5E, torus(1)))
    # Each turn reads and writes the array.
    assert line.seconds == pytest.approx(5 * 3 * 4 * 2**20 / V5E.bandwidth, rel=0.01)
    assert line.unknown == []


def test_loops_that_depend_on_values_are_named():
    found = hlo.Module(LOOP.replace("%n = s32[] constant(13)", "%n = s32[] parameter(1)"))
    line = Timeline(found, Network(V5E, torus(1)))
    assert line.unknown == ["loop"]


SLICES = """HloModule slices, is_scheduled=true

ENTRY %main (p: f32[1048576]) -> f32[1048576] {
  %p = f32[1048576] parameter(0)
  %t = token[] after-all()
  %send = (f32[1048576], u32[], token[]) send(%p, %t), channel_id=2, is_host_transfer=true, ATTRS
  %recv = (f32[1048576], u32[], token[]) recv(%t), channel_id=1, is_host_transfer=true, ATTRS
  %sent = token[] send-done(%send), channel_id=2, is_host_transfer=true
  %recv-done = (f32[1048576], token[]) recv-done(%recv), channel_id=1, is_host_transfer=true
  ROOT %result = f32[1048576] get-tuple-element(%recv-done), index=0
}
"""
ATTRS = (
    'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_host_transfer_rendezvous="all-reduce_0",_xla_megascale_transfer_type="ALL_REDUCE"}'
)


def test_slices_send_over_the_network_of_the_data_centre():
    """libtpu writes a sum over slices as a send and a receive of its runtime."""
    devices = torus(2, 2) + torus(2, 2)
    for device in devices[4:]:
        device.slice_index = 1
    net = Network(V5E, devices)
    line = Timeline(hlo.Module(SLICES.replace("ATTRS", ATTRS)), net)
    [row] = line.rows
    assert (row.opcode, row.way.axes) == ("all-reduce", ("slices",))
    assert row.waited == pytest.approx(4 * 2**20 / V5E.across, rel=0.01)
    assert net.way(range(8)).axes == ("slices",)


def test_memory_at_the_worst_moment():
    """The argument, and the array that a turn makes of it."""
    peak = buffers.peak_of(hlo.Module(LOOP))
    assert peak.size == pytest.approx(2 * 4 * 2**20, rel=0.01)
    names = {b.instruction.name for b in peak.live if b.size > 2**20}
    assert names == {"p", "y"}


@pytest.mark.parametrize(
    ("size", "window", "out", "stride", "pad", "dilated", "met"),
    [
        (8, 3, 8, 1, 1, 1, 22),  # the first and the last place meet two elements
        (8, 2, 4, 2, 0, 1, 8),
        (4, 4, 4, 3, 0, 4, 4),  # a product of a batch
        (4, 3, 8, 1, 1, 2, 11),
    ],
)
def test_windows_meet_elements(size, window, out, stride, pad, dilated, met):
    places = np.zeros(((size - 1) * dilated + 1 + 2 * pad + window + out * stride,))
    places[pad : pad + (size - 1) * dilated + 1 : dilated] = 1
    counted = sum(places[o * stride : o * stride + window].sum() for o in range(out))
    assert work._met(size, window, out, stride, pad, dilated, 1) == counted == met


def test_what_is_computed_again_is_not_asked_for():
    """6 N T operations of N parameters on T tokens, with and without a checkpoint."""
    width, hidden, tokens = 8, 32, 16

    def layer(w, x):
        return x + jnp.tanh(x @ w[0]) @ w[1]

    def asked(layer):
        def loss(ws, x):
            x, _ = lax.scan(lambda x, w: (layer(w, x), None), x, ws)
            return (x**2).sum()

        ws = jnp.ones((3, width, hidden)), jnp.ones((3, hidden, width))
        traced = jax.jit(jax.grad(loss)).trace(ws, jnp.ones((tokens, width)))
        return products_of(traced.jaxpr.jaxpr)

    whole = 6 * 3 * 2 * width * hidden * tokens
    # The first layer's input needs no derivative, but the loop computes it.
    assert asked(layer) == asked(jax.checkpoint(layer)) == whole
