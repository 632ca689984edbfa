"""Private parts of single modules of `experimental`."""
