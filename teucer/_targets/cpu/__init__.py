"""What is tuned for CPUs."""
