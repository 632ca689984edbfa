"""Arrays as pieces in folders, and such pieces as arrays of any sharding (docs/checkpoints.md)."""
