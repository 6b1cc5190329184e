"""klamm's producer: idempotent and transactional, of single records and of finished record batches.

`BlockingProducer` (`producer.py`) and `AsyncProducer` (`aio_producer.py`) are its two *faces*, for blocking programs
and for asyncio. Both move bytes for a `ProducerMachine` (`machine.py`), which makes all decisions and does no I/O (ADR
33).
"""
