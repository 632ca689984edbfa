"""Kernels for TPUs that users import: against jnp or NumPy, with gradients, and errors."""

import importlib.util
import itertools
import sys

import numpy as np
import pytest
from experimental.test_kernels_for_gpus import TOLERANCE, assert_close, numbers, weighted

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import topologies
from teucer.experimental.pallas.ops.tpu import flash_attention as flash
from teucer.experimental.pallas.ops.tpu import megablox
from teucer.experimental.pallas.ops.tpu import ragged_paged_attention as ragged
from teucer.experimental.pallas.ops.tpu.all_gather import all_gather, get_neighbor
from teucer.experimental.pallas.ops.tpu.example_kernel import double
from teucer.experimental.pallas.ops.tpu.matmul import matmul
from teucer.experimental.pallas.ops.tpu.paged_attention import paged_attention, util
from teucer.experimental.pallas.ops.tpu.paged_attention import quantization_utils as quantized
from teucer.experimental.pallas.ops.tpu.random import philox, prng_utils, threefry

products = sys.modules["teucer.experimental.pallas.ops.tpu.megablox.gmm"]
PRECISE = {"float32": 2e-5, "bfloat16": 2e-4}  # of results in float32


def check_matmul(m, k, n, block, block_k, dtype):
    x, y = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    found = matmul(x, y, block_shape=block, block_k=block_k, out_dtype=jnp.float32)
    assert_close(found, jnp.dot(x, y, preferred_element_type="float32"), PRECISE[dtype])
    assert matmul(x, y, block_shape=block, block_k=block_k).dtype == dtype


def test_matmul():
    check_matmul(20, 50, 33, (8, 16), 16, "float32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "sizes", [(16, 64, 32, (8, 16), 32), (5, 3, 2, (8, 128), 256), (0, 3, 2, (8, 8), 8)]
)
def test_matmul_of_shapes(sizes, dtype):
    check_matmul(*sizes, dtype)


Sizes = flash.BlockSizes
# batch, heads, queries, keys, size, dtype, blocks
FLASH = {
    "small": (2, 1, 32, 32, 16, "float32", Sizes(16, 32, 16, 2, 32, 16, 16, 16, 16, 16, 16)),
    "inner blocks": (
        2,
        2,
        64,
        64,
        16,
        "float32",
        Sizes(16, 32, 16, 1, *[32, 32, 16, 16, 32, 16, 16]),
    ),
    "more keys": (2, 1, 32, 64, 16, "bfloat16", Sizes(16, 32, 32, 2, *[16] * 7)),
    "default blocks": (1, 1, 128, 128, 64, "float32", None),
}


def check_flash(name, bias, segmented, causal):
    batch, heads, length, keys, size, dtype, sizes = FLASH[name]
    args = [
        numbers(batch, heads, n, size, dtype=dtype, seed=i)
        for i, n in enumerate((length, keys, keys))
    ]
    if bias:
        args.append(numbers(batch, heads, length, keys, dtype=dtype))
    segments = None
    if segmented:
        segments = flash.SegmentIds(
            *(jnp.arange(n) // 20 + jnp.zeros((batch, 1), int) for n in (length, keys))
        )

    def f(q, k, v, ab=None):
        return flash.flash_attention(
            q, k, v, ab, segments, causal=causal, sm_scale=0.3, block_sizes=sizes
        )

    def expected(q, k, v, ab=0.0):
        """By the definition."""
        logits = 0.3 * (jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type="float32") + ab)
        seen = jnp.tril(jnp.ones((length, keys), bool)) if causal else True
        if segmented:
            seen = seen & (segments.q[:, None, :, None] == segments.kv[:, None, None])
        weights = jax.nn.softmax(jnp.where(seen, logits, -jnp.inf))
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v.astype("float32")).astype(dtype)

    assert_close(f(*args), expected(*args), TOLERANCE[dtype])
    every = tuple(range(len(args)))
    slopes = jax.grad(weighted(expected), every)(*args)
    assert_close(jax.grad(weighted(f), every)(*args), slopes, 4 * TOLERANCE[dtype])
    reference = flash.mha_reference(*(*args, None)[:4], segments, causal, sm_scale=0.3)
    assert_close(reference, expected(*args), TOLERANCE[dtype])


def test_flash_attention():
    check_flash("small", True, True, True)


@pytest.mark.slow
@pytest.mark.parametrize("options", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("name", FLASH)
def test_flash_attention_of_shapes(name, options):
    check_flash(name, *options)


@pytest.mark.slow
def test_flash_attention_references():
    q, k, v = (numbers(1, 2, 8, 4, seed=i) for i in range(3))
    ab, ct = numbers(1, 2, 8, 8), numbers(1, 2, 8, 4, seed=3)
    out, total, greatest = flash.mha_reference_no_custom_vjp(
        q, k, v, ab, causal=True, sm_scale=0.3, save_residuals=True
    )
    found = flash.mha_reference_bwd(
        q, k, v, ab, None, out, total, greatest, ct, causal=True, sm_scale=0.3
    )
    _, pull = jax.vjp(
        lambda *args: flash.mha_reference(*args, None, True, sm_scale=0.3), q, k, v, ab
    )
    assert_close(found, pull(ct), 2e-5)


# m, k, n, sizes of groups, tiling
GROUPS = {
    "shared blocks": (32, 20, 12, [9, 0, 6, 13], (8, 16, 8)),
    "no rows": (64, 32, 32, [0, 0, 0, 0], (16, 32, 32)),
    "rows behind": (64, 32, 32, [5, 0, 20, 0], (32, 16, 16)),
    "one group": (32, 16, 16, [0, 32, 0, 0], (8, 16, 16)),
    "many in a block": (48, 16, 16, [1, 1, 1, 45], (16, 16, 16)),
}


def grouped(x, w, sizes, first, existing):
    """The product by its definition."""
    rows, ends = np.arange(len(x))[:, None], np.cumsum(sizes)
    out = existing
    for i in range(len(w)):
        end = ends[i + first]
        own = (rows < end) & (rows >= end - sizes[i + first])
        out = jnp.where(own, jnp.dot(x, w[i], preferred_element_type="float32"), out)
    return out


def check_grouped(name, dtype, first, transposed):
    m, k, n, sizes, tiling = GROUPS[name]
    x, w = numbers(m, k, dtype=dtype), numbers(4, k, n, dtype=dtype)
    existing, given = numbers(m, n), jnp.array(sizes, jnp.int32)
    if first:
        w = w[first : first + 2]

    def f(x, w, existing):
        return megablox.gmm(
            x,
            w.swapaxes(1, 2) if transposed else w,
            given,
            jnp.float32,
            tiling,
            jnp.array(first) if first else None,
            existing,
            transposed,
        )

    def expected(x, w, existing):
        return grouped(x, w, sizes, first, existing)

    args = x, w, existing
    assert_close(f(*args), expected(*args), PRECISE[dtype])
    slopes = jax.grad(weighted(expected), (0, 1, 2))(*args)
    assert_close(jax.grad(weighted(f), (0, 1, 2))(*args), slopes, TOLERANCE[dtype])


def check_transposed(name, dtype):
    m, k, n, sizes, tiling = GROUPS[name]
    x, y = numbers(k, m, dtype=dtype), numbers(m, n, dtype=dtype)
    ends, given = np.cumsum(sizes), jnp.array(sizes, jnp.int32)
    expected = jnp.stack(
        [
            jnp.dot(x[:, end - size : end], y[end - size : end], preferred_element_type="float32")
            for size, end in zip(sizes, ends, strict=True)
        ]
    )
    assert_close(products.tgmm(x, y, given, tiling=tiling), expected, PRECISE[dtype])
    some = products.tgmm(
        x, y, given, jnp.float32, tiling, jnp.array(1), 2, numbers(2, k, n, seed=5)
    )
    assert_close(some, expected[1:3], PRECISE[dtype])


def test_grouped_products():
    check_grouped("shared blocks", "float32", 1, True)


@pytest.mark.slow
@pytest.mark.parametrize("first, transposed", [(0, False), (1, True)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", GROUPS)
def test_grouped_products_of_shapes(name, dtype, first, transposed):
    check_grouped(name, dtype, first, transposed)
    check_transposed(name, dtype)


TABLE = jnp.array([[5, 1, 0, 3], [2, 2, 7, 6], [4, 0, 0, 0]])


def check_paged(dtype, cap, pages, eight_bits):
    q = numbers(3, 8, 32, dtype=dtype)
    k, v = wide = [numbers(2, 8, 16, 32, dtype=dtype, seed=i) for i in (1, 2)]
    lengths = jnp.array([61, 17, 1])
    if eight_bits:
        k, v = map(quantized.quantize_to_int8, (k, v))
        wide = [quantized.unquantize_from_int8(x, "float32") for x in (k, v)]
    whole = [jnp.moveaxis(jnp.take(x, TABLE, axis=1), 0, 1).reshape(3, 2, 64, 32) for x in wide]

    def f(lengths):
        return paged_attention(
            q, k, v, lengths, TABLE, pages_per_compute_block=pages, attn_logits_soft_cap=cap
        )

    expected = util.grouped_query_attention_reference(q, *whole, lengths, cap)
    assert_close(f(lengths), expected, TOLERANCE[dtype])
    assert not f(0 * lengths).any()


def test_paged_attention():
    check_paged("float32", 2.0, 2, True)


@pytest.mark.slow
@pytest.mark.parametrize("eight_bits", [False, True])
@pytest.mark.parametrize("pages", [1, 2, 4])
@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_paged_attention_of_options(dtype, cap, pages, eight_bits):
    check_paged(dtype, cap, pages, eight_bits)


RAGGED = {
    "prefill and decode": ([0, 4, 9, 20, 20, 21], 5),
    "decode": ([0, 1, 2, 3, 3, 4], 5),
    "few sequences": ([0, 1, 2, 20, 0, 0], 3),
}
LAST = {"num_kv_pages_per_block": 1, "num_queries_per_block": 8}


def ragged_operands(dtype, name="few sequences"):
    starts, count = RAGGED[name]
    table = np.random.default_rng(0).integers(0, 16, (5, 4))
    return (
        numbers(23, 4, 32, dtype=dtype),
        numbers(16, 16, 4, 32, dtype=dtype),
        *(jnp.array(x, jnp.int32) for x in ([20, 33, 40, 0, 7], table, starts, [count])),
    )


def check_ragged(name, dtype, options, blocks):
    operands = ragged_operands(dtype, name)
    ragged.dynamic_validate_inputs(*operands)
    tokens = RAGGED[name][0][RAGGED[name][1]]
    found = ragged.ragged_paged_attention(*operands, **options, **blocks)
    expected = ragged.ref_ragged_paged_attention(*operands, **options)
    assert_close(found[:tokens], expected, TOLERANCE[dtype])
    assert not found[tokens:].any()


def test_ragged_paged_attention():
    check_ragged("prefill and decode", "float32", {"soft_cap": 2.0, "sliding_window": 9}, LAST)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "blocks", [{}, LAST, {"num_kv_pages_per_block": 3, "num_queries_per_block": 16}]
)
@pytest.mark.parametrize(
    "options", [{}, {"sliding_window": 5}, {"sm_scale": 0.3}, {"k_scale": 0.5, "v_scale": 2.0}]
)
@pytest.mark.parametrize("name", RAGGED)
def test_ragged_paged_attention_of_options(name, options, blocks, dtype):
    check_ragged(name, dtype, options, blocks)


def test_random_words():
    """Numbers of JAX 0.12.0.1, by its interpreter of TPUs."""
    key = jnp.array([1, 2], "uint32")
    words = philox.philox_4x32(*map(jnp.uint32, (1, 2, 3, 4, 5, 6)))
    assert [int(w) for w in words] == [3234347452, 2291959749, 1637377849, 759571408]
    assert philox.philox_random_bits(key, 32, (7,)).tolist() == [
        2638896660, 163447598, 4001585114, 1836418454, 3619516432, 454034980, 3989002882,
    ]  # fmt: skip
    assert philox.philox_split(key, (2,)).tolist() == [
        [93904442, 2563932206],
        [1088181077, 1231179899],
    ]
    assert philox.philox_fold_in(key, 7).tolist() == [2483229164, 3162996450]
    drawn = jax.random.key(3, impl=philox.plphilox_prng_impl)
    assert jax.random.bits(drawn, (3,)).tolist() == [341098458, 932611304, 941558174]


@pytest.mark.slow
def test_random_words_of_shapes():
    key = jnp.array([1, 2], "uint32")
    bits = philox.philox_random_bits(key, 32, (300, 300))
    assert bits[299, :3].tolist() == [440191603, 4003011256, 2228595702]
    assert bits[0, 255:258].tolist() == [1066844107, 1880941372, 3752620105]
    assert (philox.philox_4x32_count(key, (5,), 7) == bits[0, 7:12]).all()
    solid = philox.philox_random_bits(key, 32, (2, 3, 4))
    assert (solid.ravel() == bits[0, :24]).all()  # JAX 0.12.0.1 repeats words there
    padded = philox.philox_4x32_kernel(key, (16, 128), (9, 100), (8, 128))
    assert (padded[:9, :100] == philox.philox_random_bits(key, 32, (9, 100))).all()
    assert prng_utils.blocked_iota((2, 2), (4, 8)).tolist() == [[0, 1], [8, 9]]


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bits_by_the_threefry_kernel_are_those_of_the_default_generator(width):
    own, default = jax.random.key(3, impl=threefry.plthreefry_prng_impl), jax.random.key(3)
    with jax.enable_x64(width == 64):
        for shape in [(), (5, 7), (300, 260), (0,)]:
            found = jax.random.bits(own, shape, f"uint{width}")
            np.testing.assert_array_equal(found, jax.random.bits(default, shape, f"uint{width}"))
    split, expected = (jax.random.key_data(jax.random.split(k, 3)) for k in (own, default))
    np.testing.assert_array_equal(split, expected)


@pytest.mark.parametrize("names", ["b", ("a", "b")])
def test_all_gather(names):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    x = numbers(8, 16)
    found = all_gather(x, mesh=mesh, axis_name=names)
    assert found.sharding.is_fully_replicated
    for shard in found.addressable_shards:
        np.testing.assert_array_equal(shard.data, x)
    assert int(get_neighbor(jnp.int32(0), mesh, "b", direction="left")["b"]) == 1


@pytest.mark.slow
def test_double():
    assert double(jnp.arange(3)).tolist() == [0, 2, 4]


def programs_for_tpus(dtype):
    """Each kernel at sizes of real programs, and its gradient: name -> (function, shapes)."""

    def wants(*shapes):
        return [jax.ShapeDtypeStruct(s, jnp.dtype(d)) for s, d in shapes]

    def total(f):
        return lambda *args: f(*args).sum().astype("float32")

    def causal(q, k, v):
        return flash.flash_attention(q, k, v, causal=True, sm_scale=0.1)

    def biased(q, k, v, ab, segments):
        return flash.flash_attention(q, k, v, ab, segments, causal=True)

    def inner(q, k, v):
        sizes = Sizes(256, 512, 128, 1, 256, 256, 128, 128, 256, 128, 256)
        return flash.flash_attention(q, k, v, block_sizes=sizes)

    def experts(x, w, sizes):
        return megablox.gmm(x, w, sizes, jnp.float32, (256, 128, 128))

    def pages(q, k, v, lengths, table):
        return paged_attention(q, k, v, lengths, table, pages_per_compute_block=4)

    def tokens(*args):
        return ragged.ragged_paged_attention(
            *args, sliding_window=64, num_kv_pages_per_block=4, num_queries_per_block=32
        )

    q, thin, ids = ((2, 4, 512, 128), dtype), ((2, 4, 512, 64), dtype), ((2, 512), "int32")
    segments = flash.SegmentIds(*wants(ids, ids))
    rows, matrices = ((1024, 200), dtype), ((8, 200, 256), dtype)
    pool, eight = (
        ((4, 64, 32, 128), dtype),
        wants(((4, 64, 32, 128), "int8"), ((4, 64, 32, 1), "float32")),
    )
    one, many = ((4, 32, 128), dtype), ((256, 32, 128), dtype)
    table = wants(((4,), "int32"), ((4, 8), "int32"))
    lists = wants(((8,), "int32"), ((8, 16), "int32"), ((9,), "int32"), ((1,), "int32"))
    return {
        "matmul": (
            lambda x, y: matmul(x, y, block_shape=(256, 256)),
            wants(((512, 1024), dtype), ((1024, 512), dtype)),
        ),
        "flash": (causal, wants(q, q, q)),
        "gradient of flash": (jax.grad(total(causal), (0, 1, 2)), wants(q, q, q)),
        "gradient of biased flash": (
            jax.grad(total(biased), (0, 1, 2, 3)),
            [*wants(q, q, q, ((2, 4, 512, 512), dtype)), segments],
        ),
        "inner blocks": (jax.grad(total(inner), (0, 1, 2)), wants(thin, thin, thin)),
        "experts": (jax.grad(total(experts), (0, 1)), wants(rows, matrices, ((8,), "int32"))),
        "pages": (pages, [*wants(one, pool, pool), *table]),
        "pages of 8 bits": (pages, [*wants(one), *[quantized.QuantizedTensor(*eight)] * 2, *table]),
        "tokens": (tokens, [*wants(many, ((64, 16, 16, 128), dtype)), *lists]),
        "philox": (
            lambda key: philox.philox_random_bits(key, 32, (1000, 300)),
            wants(((2,), "uint32")),
        ),
        "threefry": (
            lambda key: threefry.plthreefry_random_bits(key, 32, (1000,)),
            wants(((2,), "uint32")),
        ),
    }


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='needs pip install "teucer[tpu]"'
)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("chip", ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"])
def test_kernels_compile_for_tpus(chip, dtype):
    place = jax.sharding.SingleDeviceSharding(topologies.get_topology_desc(chip, "tpu").devices[0])
    failed = {}
    for name, (f, shapes) in programs_for_tpus(dtype).items():
        args = jax.tree.map(
            lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place), shapes
        )
        try:
            text = jax.jit(f).lower(*args).compile().as_text()
        except Exception as err:  # all of them are told
            failed[name] = str(err)[:300]
            continue
        if "tpu_custom_call" not in text:
            failed[name] = "no kernel"
    assert failed == {}


def grad_of_flash(sizes):
    q = numbers(1, 1, 16, 16)
    return jax.grad(lambda q: flash.flash_attention(q, q, q, block_sizes=sizes).sum())(q)


def with_operand(f, place, value):
    operands = list(ragged_operands("float32"))
    operands[place] = jnp.array(value, jnp.int32)
    return f(*operands)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: matmul(numbers(2, 3), numbers(2, 3), block_shape=(8, 8)), ValueError, r"\[k, n\]"),
        (
            lambda: matmul(numbers(2, 3), numbers(3, 2).astype("bfloat16"), block_shape=(8, 8)),
            TypeError,
            "Cannot deduce output dtype",
        ),
        (
            lambda: all_gather(
                numbers(3, 2), mesh=jax.make_mesh((2,), ("a",), devices=jax.devices()[:2]),
                axis_name="a",
            ),
            ValueError,
            r"2 devices do not divide the first axis of x: float32\[3, 2\]",
        ),
        (lambda: Sizes(128, 100, 64, 1), ValueError, "block_k=64 should divide block_k_major=100"),
        (
            lambda: flash.flash_attention(*[numbers(1, 1, 100, 8)] * 3),
            ValueError,
            "block_q=128 should be smaller or equal to q_seq_len=100",
        ),
        (
            lambda: flash.flash_attention(
                numbers(1, 2, 128, 8), *[numbers(1, 1, 128, 8)] * 2
            ),
            ValueError,
            "Head count mismatch: got 2, 1, 1",
        ),
        (
            lambda: flash.flash_attention(*[numbers(1, 1, 128, 8)] * 3, numbers(1, 1, 1, 128)),
            ValueError,
            r"Attention bias shape mismatch: expected .*got \(1, 1, 1, 128\)",
        ),
        (lambda: grad_of_flash(Sizes(16, 16, 16, 1)), ValueError, "not all backward blocks"),
        (
            lambda: grad_of_flash(Sizes(16, 16, 16, 1, 16, 16, 16, 16, 16, 16, 12)),
            ValueError,
            "q_seq_len=16 should be divisible by block_q_dq=12",
        ),
        (
            lambda: megablox.gmm(numbers(200, 8), numbers(1, 8, 8), jnp.array([200])),
            ValueError,
            r"200 must be divisible by x-dimension tile size \(128\)",
        ),
        (
            lambda: megablox.gmm(numbers(8, 8).astype(int), numbers(1, 8, 8), jnp.array([8])),
            ValueError,
            "Expected bfloat16 or float32 array but got int32",
        ),
        (
            lambda: megablox.gmm(numbers(8, 4), numbers(1, 8, 8), jnp.array([8])),
            ValueError,
            r"(?s)gmm: operands do not fit.*rhs: float32\[1, 8, 8\]",
        ),
        (
            lambda: paged_attention(
                numbers(3, 8, 32), *[numbers(2, 8, 16, 32)] * 2, jnp.ones(3, int), TABLE,
                pages_per_compute_block=3,
            ),
            ValueError,
            "pages_per_compute_block must divide pages per sequence. Got 3 and 4",
        ),
        (
            lambda: with_operand(ragged.ragged_paged_attention, 4, [0, 1]),
            ValueError,
            r"(?s)cu_q_lens \[sequences \+ 1\].*cu_q_lens: int32\[2\]",
        ),
        (
            lambda: with_operand(ragged.dynamic_validate_inputs, 2, [20, 99, 40, 0, 0]),
            ValueError,
            r"kv_lens\[1\]=99 must be at least its 1 tokens, and at most the 64 keys",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
