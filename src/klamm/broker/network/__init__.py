"""Listener, connections, and the dispatch of requests to handlers."""
