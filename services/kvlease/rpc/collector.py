"""Python's collector of cyclic garbage, set for servers that keep a great many objects and make little such garbage."""

import gc

# Objects made and not let go, until the youngest are looked through; then how many looks let the next ones be looked
# through, and those the rest. Looking through all leases of a large registry stops it for a second, in vain.
_THRESHOLDS = (10_000, 20, 1_000)


def settle() -> None:
    """Leaves what is there now alone for ever, and looks for garbage less often: to be called once all is set up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
