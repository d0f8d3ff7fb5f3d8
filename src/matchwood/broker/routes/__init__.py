"""The routes but for publishing and streams: one function each, named in `app`."""
