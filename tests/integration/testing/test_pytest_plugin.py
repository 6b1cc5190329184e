"""The fixtures `klamm_broker` and `klamm_topic` in a project that has klamm installed."""

from __future__ import annotations

import pytest
from tests.support.page_code import page_code

QUIET = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider")


def test_fixtures_need_no_import(pytester: pytest.Pytester) -> None:
    """The fixtures give one broker for the session and an own topic for each test."""
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import Consumer, Producer

        seen = []

        def _round_trip(broker, topic):
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            producer.produce(topic, "hello")
            assert producer.flush(30) == 0
            config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
            consumer = Consumer(config)
            consumer.subscribe([topic])
            message = consumer.poll(30)
            consumer.close()
            assert message.value() == b"hello"
            assert message.offset() == 0
            seen.append((topic, broker.bootstrap_servers))

        def test_one(klamm_broker, klamm_topic):
            _round_trip(klamm_broker, klamm_topic)

        @pytest.mark.parametrize("odd", ["a/b ü", "x" * 300])
        def test_with_an_odd_name(klamm_topic, klamm_broker, odd):
            _round_trip(klamm_broker, klamm_topic)

        def test_sees_three_topics_on_one_broker():
            topics, brokers = zip(*seen)
            assert len(set(topics)) == 3
            assert len(set(brokers)) == 1
            assert topics[0].startswith("test_one-")
        """
    )
    pytester.runpytest_subprocess(*QUIET).assert_outcomes(passed=4)


def test_it_costs_nothing_where_it_is_not_used(pytester: pytest.Pytester) -> None:
    """No broker and no client is imported before a test uses the fixture."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing_was_imported():
            heavy = ("asyncio", "uvloop", "confluent_kafka", "klamm.broker", "klamm.testing.embedded", "cramjam")
            assert [name for name in heavy if name in sys.modules] == []
        """
    )
    plugins = [
        word for name in ("pytest_asyncio", "anyio", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")
    ]
    pytester.runpytest_subprocess(*QUIET, *plugins).assert_outcomes(passed=1)


def test_fixtures_are_listed_with_what_they_do(pytester: pytest.Pytester) -> None:
    """`pytest --fixtures` lists the fixtures."""
    output = pytester.runpytest_subprocess("--fixtures").stdout.str()
    assert "klamm_broker [session scope]" in output
    assert "klamm_topic" in output


def test_the_plugin_can_be_turned_off(pytester: pytest.Pytester) -> None:
    """pytest's option `-p no:klamm` disables the plugin."""
    pytester.makepyfile("def test_one(klamm_topic): pass")
    pytester.runpytest_subprocess(*QUIET, "-p", "no:klamm").assert_outcomes(errors=1)


def test_the_guide_to_clusters_works(pytester: pytest.Pytester) -> None:
    """The tests of the page "Test with a cluster" pass as a reader copies them."""
    kill, pause, cut, rebalance = page_code("how-to/test-with-a-cluster.md")
    pytester.makepyfile(test_kill=kill, test_pause=pause, test_cut=cut, test_rebalance=rebalance)
    pytester.runpytest_subprocess(*QUIET).assert_outcomes(passed=4)
