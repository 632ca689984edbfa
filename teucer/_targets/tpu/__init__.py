"""Code that is tuned for TPUs."""
