"""Kernels that take what comes before and behind them into their steps (docs/kernels.md)."""
