"""The exit codes of the command line, besides 0: all went well."""

ERROR = 2
"""An error of Matchwood, or in the arguments (argparse ends with it too)."""

REJECTED = 3
"""Done, but records were rejected. Not 1, with which Python ends after an uncaught exception."""

INTERRUPTED = 130
"""Ctrl-C, or the output is no longer read."""
