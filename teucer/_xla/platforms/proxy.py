"""Clients of a server that has the devices, by IFRT's proxy."""

from jaxlib._ifrt_proxy import ClientConnectionOptions, get_client

__all__ = ["ClientConnectionOptions", "get_client"]
