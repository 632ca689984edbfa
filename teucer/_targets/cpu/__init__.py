"""Code that is tuned for CPUs."""
