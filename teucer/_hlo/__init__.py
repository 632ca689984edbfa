"""Writers of StableHLO for targets and operations, beside `_lower.hlo`."""
