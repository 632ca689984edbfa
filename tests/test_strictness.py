"""Public functions give the same under every setting that makes programs stricter.

Promotion of dtypes and ranks refused, jaxprs checked, NaNs and leaks looked for, nothing compiled,
64 bits. They are called as the table, tests/numpy/calls.txt and their docstrings call them
(tests/strict_calls.py); FUNCTIONS are more, of operands of one dtype in several ranks.
"""

import numpy as np
import pytest
from optable.compare import assert_close
from strict_calls import SETTINGS, examples, lines, rows

import teucer as jax
import teucer.numpy as jnp
import teucer.scipy.fft
import teucer.scipy.linalg
import teucer.scipy.optimize
import teucer.scipy.signal
import teucer.scipy.special
import teucer.scipy.stats
from teucer.example_libraries import stax
from teucer.experimental import checkify, ode, sparse
from teucer.experimental import pallas as pl
from teucer.experimental.pallas.ops.tpu import splash_attention as splash

pytestmark = pytest.mark.usefixtures("only_new_objects")

X = jnp.linspace(0.1, 1, 8)
M = jnp.outer(X, X) + jnp.eye(8)
B = jnp.stack([M, M + jnp.eye(8)])
Q = jnp.ones((2, 4, 2, 8))
MASK = splash.MultiHeadMask([splash.CausalMask((2, 2))] * 4)
KEY = jax.random.key(0)
signal, special, stats, linalg = (
    jax.scipy.signal,
    jax.scipy.special,
    jax.scipy.stats,
    jax.scipy.linalg,
)
FUNCTIONS = {
    "odeint": lambda: ode.odeint(lambda y, t: -y, X, jnp.array([0.0, 1.0])),
    "csd": lambda: signal.csd(M, M, nperseg=4),
    "csd, linear": lambda: signal.csd(M, M, nperseg=4, detrend="linear", average="median"),
    "welch": lambda: signal.welch(M, nperseg=4),
    "istft": lambda: signal.istft(signal.stft(B, nperseg=4)[2], nperseg=4),
    "outer": lambda: jnp.add.outer(M, X),
    "bessel_jn": lambda: special.bessel_jn(M, v=3),
    "cov": lambda: jnp.cov(M, aweights=X),
    "gaussian_kde": lambda: stats.gaussian_kde(M[:3], weights=X).logpdf(M[:3]),
    "corrcoef": lambda: jnp.corrcoef(jax.lax.complex(M, M * M)),
    "fill_diagonal": lambda: jnp.fill_diagonal(M, 5, inplace=False),
    "put_along_axis": lambda: jnp.put_along_axis(
        M, jnp.argmax(M, 1, keepdims=True), 5, 1, inplace=False
    ),
    "idct": lambda: jax.scipy.fft.idct(jax.scipy.fft.dct(M)),
    "minimize": lambda: jax.scipy.optimize.minimize(lambda x: jnp.sum(x**2), X, method="BFGS").x,
    "splash_attention": lambda: splash.make_splash_mha_single_device(MASK)(Q[0], Q[0], Q[0]),
    "mode": lambda: stats.mode(M),
    "rankdata": lambda: stats.rankdata(M, axis=0),
    "multivariate_normal": lambda: stats.multivariate_normal.logpdf(B, X, M),
    "attention": lambda: jax.nn.dot_product_attention(
        Q,
        Q,
        Q,
        is_causal=True,
        local_window_size=(1, 1),
        query_seq_lengths=jnp.array([3, 4]),
        key_value_seq_lengths=jnp.array([3, 4]),
    ),
    "orthogonal": lambda: jax.nn.initializers.orthogonal()(KEY, (3, 3), jnp.complex64),
    "expm": lambda: linalg.expm(B),
    "expm_frechet": lambda: linalg.expm_frechet(B, B),
    "lu": lambda: linalg.lu(B),
    "sqrtm": lambda: linalg.sqrtm(B),
    "Dense": lambda: stax.Dense(3)[1]((M[:, :3], X[:3]), B),
}
# What is said of the calls that are made under a setting which they contradict.
MIXED = ("TypePromotionError", "numpy_rank_promotion")


def check(run, setting, name=""):
    plain = run()
    with SETTINGS[setting]():
        found = run()
    leaves, others = jax.tree.leaves(plain), jax.tree.leaves(found)
    assert len(leaves) == len(others)
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, jax.Array | np.ndarray) and a.dtype.kind in "biufc":
            if np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
                continue
            assert_close(np.asarray(b), np.asarray(a), 1e-4, f"{name} under {setting}")


@pytest.mark.parametrize("setting", ["strict dtypes", "strict ranks"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_operands_of_one_dtype(name, setting):
    check(FUNCTIONS[name], setting, name)


def test_functions_without_jit():
    """References, callbacks and checks take numbers, which `jit` would have made arrays."""
    with jax.disable_jit():
        ref = jax.new_ref(1.0)
        ref[...] = 2.0

        @pl.when(True)
        def _():
            ref[...] = ref[...] + 1

        assert jax.freeze(ref) == 3.0
        assert jax.jit(lambda x: jax.pure_callback(np.square, x, x))(3.0) == 9.0

        def positive(x):
            checkify.check(x > 0, "must be positive, not {}", x)
            return x

        assert "not -1.0" in checkify.checkify(positive)(-1.0)[0].get()


def test_slices_of_sparse_arrays_keep_no_tracers():
    with jax.checking_leaks():
        assert sparse.eye(4)[jnp.array([2, 3])].todense().shape == (2, 4)


ROWS = list(rows(quick=True))


@pytest.mark.parametrize("setting", ["strict dtypes", "strict ranks", "checks", "leaks"])
def test_some_rows(setting):
    for call in ROWS[::40]:
        check(call.run, setting, call.name)


def complaints(calls, settings):
    """The calls that give something else under a setting, but those that contradict it."""
    found = []
    for call in calls:
        for setting in settings:
            try:
                check(call.run, setting, call.name)
            except Exception as err:
                said = f"{type(err).__name__}: {err}"
                mixed = call.mixed_dtypes or call.mixed_ranks
                if not (mixed and any(word in said for word in MIXED)):
                    found.append(f"{call}, {setting}: {said[:200]}")
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of calls that warn under no setting, too
@pytest.mark.parametrize("part", range(8))
def test_all_lines(part):
    """Lines of calls.txt mix dtypes, so strict dtypes are not asked of them."""
    settings = ("strict ranks", "checks", "leaks")
    assert complaints(list(lines())[part::8], settings) == []


# Examples that a setting contradicts: they show it, or it is their subject.
CONTRADICTED = {
    "result_type": ("strict dtypes",),
    "promote_types": ("strict dtypes",),
    "of": ("no jit",),
    "compiles": ("no jit",),
    "register_lowering": ("no jit",),
    "initialize": tuple(SETTINGS),
    "axis_index": ("strict dtypes",),
    "breakpoint": ("leaks",),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of calls that warn under no setting, too
@pytest.mark.parametrize("part", range(20))
def test_all_examples(part):
    calls, wrong = list(examples())[part::20], []
    for setting in set(SETTINGS) - {"nans", "64 bits"}:
        asked = [c for c in calls if setting not in CONTRADICTED.get(c.name.split(".")[-1], ())]
        wrong += complaints(asked, [setting])
    assert wrong == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of calls that warn under no setting, too
@pytest.mark.parametrize("part", range(20))
def test_all_rows(part):
    settings = [s for s in SETTINGS if s not in ("nans", "64 bits")]
    # A scan of length 0 has no type of results where its body is never called.
    wrong = [
        said for said in complaints(ROWS[part::20], settings) if "zero-length scan" not in said
    ]
    assert wrong == []
