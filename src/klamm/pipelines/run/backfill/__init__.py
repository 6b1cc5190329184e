"""Backfills: a closed range of a flow's topics, computed again as a batch with the flow's present code."""
