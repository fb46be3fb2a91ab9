"""Servers that do not answer are named in seconds; topics are tested on a real broker in tests/kafka."""

from __future__ import annotations

import socket
import time

import pytest

from millstream.errors import ScriptError
from millstream.pipeline.kafka import check_servers


def test_an_address_at_which_nothing_answers_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ScriptError, match=f"stream A: no answer from {address} .*Correct the address"):
            check_servers("stream A", address)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("server", ["broker", "broker:", "broker:port"])
def test_a_server_has_a_port(server: str) -> None:
    with pytest.raises(ScriptError, match=f"the server '{server}'; a server is host:port"):
        check_servers("stream A", server)


def test_one_of_several_servers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead, alive = (f"127.0.0.1:{one.getsockname()[1]}" for one in (taken, listening))
        check_servers("stream A", f"{dead}, PLAINTEXT://{alive}")
