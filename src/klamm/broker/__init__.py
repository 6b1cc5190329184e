"""Serves requests: the server and the rooms of its parts."""
