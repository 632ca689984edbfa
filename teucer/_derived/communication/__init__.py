"""What the devices of a compiled program tell each other (docs/guide/seeing_communication.md)."""
