"""Communication among the devices of a compiled program (docs/guide/seeing_communication.md)."""
