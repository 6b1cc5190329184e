"""Compacts logs."""
