"""Errors as users see them: whose frames a traceback shows, what to do about a mistake, and where
the guide explains it."""
