"""What the broker runs without a request, and what it offers to the handlers."""
