"""klamm next to its peers, under the same load, in one run. README.md describes how to run it and how to read it."""
