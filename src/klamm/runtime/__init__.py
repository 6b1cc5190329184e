"""Runs the coordinators over ports, without sockets and files."""
