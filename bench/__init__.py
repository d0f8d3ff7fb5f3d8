"""Benchmarks: experiments through the public API, judged before they are timed. `python -m bench NAME` runs one."""
