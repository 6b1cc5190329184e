"""Tests that the commands and settings of the page "Run a cluster" exist."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import Final

from tests.support.page_code import page_blocks

from klamm.cli.main import COMMANDS
from klamm.cli.parser import Parser
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.etcd.etcd_address import EtcdAddress

PAGE: Final = "how-to/run-a-cluster.md"
TEXT: Final = (Path(__file__).parents[3] / "docs" / PAGE).read_text(encoding="utf-8")


def _commands() -> list[str]:
    """Returns the command lines of `klamm` in the page's blocks and tables, without the placeholders of URLs."""
    blocks = "\n".join(block for kind in ("sh", "console", "ini") for block in page_blocks(PAGE, kind))
    lines = re.sub(r" *\\\n *", " ", blocks).splitlines()
    found = [line.partition(" #")[0] for line in lines if re.match(r"(\$ |ExecStart=\S*/)?klamm ", line)]
    in_text = re.findall(r"`(klamm (?!serve:)[^`]+)`", TEXT)
    return [re.sub(r"^.*?klamm ", "", command) for command in (*found, *in_text)]


def test_every_command_is_understood() -> None:
    """Each command of klamm in the page is parsed with its options; so none is misspelled."""
    commands = _commands()
    assert len(commands) > 8
    nouns = set()
    for command in commands:
        words = shlex.split(command)
        parser = Parser(prog="klamm")
        verbs = parser.add_subparsers(dest="command")
        module = importlib.import_module(COMMANDS[words[0]][0])
        module.configure(verbs.add_parser(words[0]))
        parser.parse_whole(words)
        nouns.add(words[0])
    assert nouns == {"serve", "cluster", "topic"}


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    """The file of the page is a valid configuration: brokers talk through their own listener, and each record is on two
    brokers before it is acknowledged."""
    (properties,) = page_blocks(PAGE, "properties")
    file = tmp_path / "server.properties"
    file.write_text(properties, encoding="utf-8")
    config = BrokerConfig.load(file=file)
    assert [listener.name for listener in config.listeners] == ["CLIENTS", "BROKERS"]
    assert config.inter_broker_listener_name == "BROKERS"
    assert config.topic_defaults.min_insync_replicas == config.transaction_state_log_min_isr == 2
    factors = (
        config.default_replication_factor,
        config.offsets_topic_replication_factor,
        config.transaction_state_log_replication_factor,
    )
    assert factors == (3, 3, 3)


def test_the_urls_are_understood() -> None:
    """The URL of the service names three members, TLS, and a user with the file of the password."""
    (url,) = set(re.findall(r'--metadata "(etcds://klamm@[^"]+)"', TEXT))
    address = EtcdAddress.parse(url)
    assert len(address.endpoints) == 3
    assert (address.is_encrypted, address.user, address.prefix) == (True, "klamm", "orders")
    assert None not in (address.ca_file, address.certificate_file, address.key_file, address.password_file)


def test_every_setting_is_known() -> None:
    """Each name with dots that looks like a setting of a broker or a topic is one."""
    from klamm.config.table import broker_keys, topic_keys

    names = set(re.findall(r"`((?:[a-z]+\.){1,}[a-z]+)(?:=[^`]*)?`", TEXT))
    others = {"delivery.timeout.ms", "message.timeout.ms", "bootstrap.servers"}  # of clients
    others |= {"meta.properties", "ca.pem", "ca.key", "klamm.pem", "klamm.key"}  # files
    assert names - others - set(broker_keys()) - set(topic_keys()) == set()
    assert "broker.session.timeout.ms" in names
