"""What a program will take on devices that are not there: memory, time, and why."""
