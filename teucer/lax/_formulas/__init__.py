"""What elementary and special functions are computed by: series, sums of two numbers, parts."""
