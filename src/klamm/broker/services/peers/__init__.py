"""Requests to other brokers, and the proof of which broker sends them."""
