"""What every structure is built on: exact rows, verification, results, ordering, growth, folders on disk."""
