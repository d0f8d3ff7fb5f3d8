"""What every structure stands on: exact rows, verification, results, ordering, growth, folders on disk."""
