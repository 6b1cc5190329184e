"""The logs of the broker and the partitions on them: opening, growth, retention and cleaning, and failures."""
