"""What is tuned for one platform."""
