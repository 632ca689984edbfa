"""Clients of a server that has the devices (IFRT's proxy), and programs in the form that such
runtimes take."""

from jaxlib._ifrt_proxy import ClientConnectionOptions, get_client
from jaxlib._jax import ifrt_programs

__all__ = ["ClientConnectionOptions", "get_client", "ifrt_programs"]
