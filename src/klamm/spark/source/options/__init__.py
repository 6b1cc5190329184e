"""The options of a read: parsed, checked, and explained if they are wrong."""
