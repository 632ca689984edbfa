"""Code that is tuned for GPUs."""
