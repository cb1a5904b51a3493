"""Time to first token of multi-turn conversations: computed anew, stock bi-directional transfer, and kvlease."""
