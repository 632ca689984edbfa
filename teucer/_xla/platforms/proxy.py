"""Clients of a server that has the devices, by IFRT's proxy, and programs as such runtimes take
them."""

from jaxlib._ifrt_proxy import ClientConnectionOptions, get_client
from jaxlib._jax import ifrt_programs

__all__ = ["ClientConnectionOptions", "get_client", "ifrt_programs"]
