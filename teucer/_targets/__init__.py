"""Code that is tuned for one platform."""
