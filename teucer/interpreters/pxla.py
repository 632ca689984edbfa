"""Programs over several devices: libraries ask here which mesh `with mesh:` has put in force."""

from teucer._base.lazy import listing
from teucer._jax.old_names import old_names

__all__ = ["thread_resources"]  # noqa: F822  # __getattr__ gives it
__dir__ = listing(__name__, __all__)
__getattr__ = old_names(
    __name__,
    {
        "thread_resources": (
            "teucer._jax.pxla",
            "thread_resources",
            "jax.interpreters.pxla.thread_resources is deprecated. Set the mesh by `with "
            "jax.set_mesh(mesh):` and ask jax.sharding.get_abstract_mesh().",
        )
    },
)
