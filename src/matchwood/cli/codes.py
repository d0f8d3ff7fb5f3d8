"""The exit codes of the command line, besides 0: all went well."""

ERROR = 2
"""An error of Matchwood, or in the arguments (argparse ends with it too)."""

REJECTED = 3
"""Done, but records were rejected. Not 1, with which Python ends after an exception that nobody caught."""

INTERRUPTED = 130
"""Ctrl-C, or nobody reads the output any more."""
