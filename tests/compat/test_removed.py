"""Names that JAX removed within two years are there under the alias, and say what to use."""

from compat_process import python


def test_each_is_there_and_warns_at_the_users_line():
    python("""
        import importlib, warnings
        import jax
        from teucer.compat import _removed
        assert len(_removed.NAMES) > 5
        def warned(make):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                make()
            (w,) = [w for w in caught if "JAX has removed" in str(w.message)]
            assert w.category is DeprecationWarning, w
            return w
        for module, sources in _removed.NAMES.items():
            there = importlib.import_module(module)
            for item in " ".join(sources.values()).split():
                w = warned(lambda: getattr(there, item.partition("=")[0]))
                assert " Use " in str(w.message) and w.filename == "<string>", w
        for module in _removed.MODULES:
            w = warned(lambda: importlib.import_module(module))
    """)


def test_they_do_what_they_did():
    python("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import numpy as np
        import scipy.special
        import jax, jax.numpy as jnp
        from jax.lib import xla_bridge
        from jax.util import safe_map, split_list
        import jax.experimental, jax.dlpack, jax.scipy.special
        assert xla_bridge.get_backend().platform == "cpu"
        assert split_list([1, 2, 3], [1]) == [[1], [2, 3]]
        put = jax.device_put_replicated({"a": jnp.arange(3.0)}, jax.devices())
        assert put["a"].shape == (len(jax.devices()), 3)
        put = jax.device_put_sharded([jnp.arange(3.0)], jax.devices()[:1])
        np.testing.assert_array_equal(put, [[0.0, 1.0, 2.0]])
        try:
            jax.device_put_sharded([1.0, 2.0], jax.devices()[:1])
            raise AssertionError
        except ValueError as error:
            assert "2 shards" in str(error)
        with jax.experimental.enable_x64():
            assert jnp.arange(2.0).dtype == "float64"
            with jax.experimental.disable_x64():
                assert jnp.arange(2.0).dtype == "float32"
        assert jnp.round_(1.5) == 2.0 and jnp.fix(-1.5) == -1.0
        ours = jax.scipy.special.sph_harm(jnp.array([1]), jnp.array([2]), jnp.array([0.3]),
                                          jnp.array([0.7]))
        np.testing.assert_allclose(ours, scipy.special.sph_harm_y(2, 1, 0.7, 0.3), rtol=1e-5)
        with jax.sharding.use_mesh(jax.make_mesh((1,), ("x",))):
            pass
        assert type(jax.core.Literal(1.0, jax.core.get_aval(1.0))).__name__ == "Literal"
        try:
            jax.numpy.no_such_name
            raise AssertionError
        except AttributeError as error:
            assert "no_such_name" in str(error)
    """)
