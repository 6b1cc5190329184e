"""Segments and their indexes."""
