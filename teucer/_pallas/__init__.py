"""Kernels: functions of references to blocks of arrays, run over a grid (docs/kernels.md)."""
