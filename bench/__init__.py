"""klamm beside its peers, under the same load, in one run. README.md says how to run it and how to read it."""
