"""Several brokers on one machine behind one command."""
