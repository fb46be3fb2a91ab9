"""Kafka: whether a stream's or a sink's topics are there, and the parts of a record beside its value.

The check takes seconds. Without it Spark would retry in silence, for minutes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.errors import ScriptError, did_you_mean, listing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD = {
    "kafka_key": "key",
    "kafka_topic": "topic",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
    "kafka_timestamp": "timestamp",
}
"""Columns that a stream with value = 'json' may declare: they hold the parts of the Kafka record itself."""
PATIENCE = {
    "kafka.max.block.ms": "10000",
    "kafka.delivery.timeout.ms": "20000",
    "kafka.request.timeout.ms": "10000",
}
"""How long a producer waits for brokers, unless the query says it; by default minutes, and batches wait for it."""
_CONNECT = 3.0
_ANSWER = 10
_SERVER = re.compile(r"(?:\w+://)?(?P<host>\[[^\]]+\]|[^:\s]+):(?P<port>\d+)")


def check_topics(spark: SparkSession, who: str, options: Mapping[str, str], tell: Callable[[str], None]) -> None:
    """Refuses servers that do not answer, and topics that are not there. `options` have names in lower case.

    A sink's topic may be made by its first record: its absence is told.
    """
    servers = options.get("kafka.bootstrap.servers", "")
    check_servers(who, servers)
    there = _topics(spark, who, options)
    if "subscribepattern" in options:
        if not any(re.fullmatch(options["subscribepattern"], name) for name in there):
            tell(f"{who}: no topic matches '{options['subscribepattern']}' yet")
        return
    wanted = [name.strip() for name in options.get("subscribe", "").split(",") if name.strip()]
    for name in wanted:
        if name not in there:
            raise ScriptError(
                f"{who}: no topic '{name}' at {servers}",
                f"the topics there are {listing(sorted(there))}" if there else "there are no topics there",
                did_you_mean(name, there, "Make the topic, or correct the name."),
            )
    if options.get("topic") and options["topic"] not in there:
        tell(f"{who}: there is no topic '{options['topic']}' yet; the servers may make it with the first record")


def check_servers(who: str, servers: str) -> None:
    """Refuses an address at which nothing answers."""
    failed = []
    for server in filter(None, map(str.strip, servers.split(","))):
        found = _SERVER.fullmatch(server)
        if found is None:
            raise ScriptError(f"{who}: the server '{server}'", "a server is host:port", "Write it so.")
        try:
            with socket.create_connection((found["host"].strip("[]"), int(found["port"])), timeout=_CONNECT):
                return
        except (OSError, OverflowError) as error:
            failed.append(f"{server} ({error})")
    raise ScriptError(
        f"{who}: no answer from {listing(failed) or 'any server'}",
        "kafka.bootstrap.servers names running brokers, as host:port",
        "Correct the address, or start the broker.",
    )


def _topics(spark: SparkSession, who: str, options: Mapping[str, str]) -> set[str]:
    """The topics there are, asked for with the options that Spark will have."""
    from py4j.protocol import Py4JError

    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name, value in _client(options.items()):
        properties.setProperty(name, value)
    properties.setProperty("default.api.timeout.ms", str(_ANSWER * 1_000))
    properties.setProperty("request.timeout.ms", str(_ANSWER * 500))
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            return set(admin.listTopics().names().get(_ANSWER, jvm.java.util.concurrent.TimeUnit.SECONDS))
        finally:
            admin.close(jvm.java.time.Duration.ZERO)
    except Py4JError as error:
        said = _last_cause(error)
        raise ScriptError(
            f"{who}: {options.get('kafka.bootstrap.servers')} does not say which topics it has: {said}",
            "the options kafka.* of WITH go to Kafka's clients",
            "Check the address, and the options for security.",
        ) from None


def _client(options: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name.removeprefix("kafka."), value) for name, value in options if name.startswith("kafka."))


def _last_cause(error: Any) -> str:
    cause = getattr(error, "java_exception", None)
    if cause is None:
        return str(error).splitlines()[0]
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.toString()).splitlines()[0]
