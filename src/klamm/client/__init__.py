"""klamm's own client, over the same codecs as the broker."""
