"""The client library: route turns, hold leases while tools run, end conversations."""
