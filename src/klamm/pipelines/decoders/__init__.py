"""Decoders: how the bytes of a record's value become typed columns."""
