"""References: arrays that programs change."""
