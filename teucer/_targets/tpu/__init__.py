"""What is tuned for tpu."""
