"""Measurements, each a package with commands of its own. A package, so that no other of this name is found instead."""
