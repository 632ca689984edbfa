"""The array type, transfers, and layouts in memory."""
