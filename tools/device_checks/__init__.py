"""What only a device can show, for the day when one is there: `make device-checks`.

`report` holds what was found, and how much time is left; the other modules are the checks.
"""
