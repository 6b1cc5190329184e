"""Delivery of records to handlers: order by key, retries, back-pressure, and what to commit.

- `partition_lanes.py`: the records of one partition that are not done with, and the order among them
- `record_delivery.py`: all partitions of one handler: which records start now, what follows from success and failure
- `retry_rule.py`, `record_window.py`: when a failed record runs again, how many records are held
- `commit_text.py`, `range_bytes.py`: what a commit says about the records beyond its offset, as compact text
"""
