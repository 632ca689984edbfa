"""Arrays over devices and processes, saved and loaded under any sharding (docs/checkpoints.md)."""
