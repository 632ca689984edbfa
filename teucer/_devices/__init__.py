"""Devices, meshes, shardings, and where programs run."""
