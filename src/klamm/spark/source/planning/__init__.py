"""Decides which offsets a read or a micro-batch covers, and divides them into tasks."""
