"""What targets and operations write StableHLO with, beside `_lower.hlo`."""
