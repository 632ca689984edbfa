"""Kernels whose steps include the operations before and behind them (docs/kernels.md)."""
