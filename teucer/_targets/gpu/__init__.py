"""What is tuned for gpu."""
