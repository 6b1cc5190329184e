"""The group coordinator."""
