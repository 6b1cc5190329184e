"""klamm's producer: idempotent and transactional, of single records and of finished record batches.

`BlockingProducer` (`producer.py`) and `AsyncProducer` (`aio_producer.py`) are the two faces. Both move bytes for one
`ProducerMachine` (`machine.py`), which decides everything and does no I/O (ADR 33).
"""
