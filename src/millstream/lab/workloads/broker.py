"""A Kafka broker of one node on loopback, in a process of its own, for benchmarks and tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from millstream.errors import PipelineFailed
from millstream.lab.workloads.jars import jars

_UP = 60.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={place}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
controlled.shutdown.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""


class Broker:
    """A broker with its data in `place`; killed and started again it has the same port and topics."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: Any = None
        port, controller = _free_ports(2)
        self.address = f"127.0.0.1:{port}"
        place.mkdir(parents=True)
        self._properties = place / "server.properties"
        self._properties.write_text(_PROPERTIES.format(port=port, controller=controller, place=place), encoding="utf-8")
        self._run("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c").wait()

    def start(self) -> None:
        """Returns when it answers."""
        from confluent_kafka import KafkaException

        self._process = self._run("kafka.Kafka", memory="512m")
        try:
            self.admin().list_topics(timeout=_UP)
        except KafkaException as error:
            self.kill()
            raise PipelineFailed(f"the broker does not answer, see {self._place}/broker.log: {error}") from None

    def kill(self) -> None:
        """Signal 9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:  # what it promises is lost when it goes
            settings = {"bootstrap.servers": self.address, "reconnect.backoff.max.ms": 500}
            self._admin = AdminClient(settings, logger=_silent())
        return self._admin

    def create(self, topic: str, partitions: int = 1) -> None:
        from confluent_kafka.admin import NewTopic

        for done in self.admin().create_topics([NewTopic(topic, partitions, 1)]).values():
            done.result()

    def add_partitions(self, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        for done in self.admin().create_partitions([NewPartitions(topic, total)]).values():
            done.result()

    def expire(self, topic: str, partition: int, offset: int) -> None:
        """Deletes the records before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        for done in self.admin().delete_records([TopicPartition(topic, partition, offset)]).values():
            done.result()

    def produce(self, topic: str, values: Iterable[bytes | None], *, key: bytes | None = None) -> None:
        """Returns when all are acknowledged."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 20, "acks": "all"}, logger=_silent())
        for value in values:
            while True:
                try:
                    producer.produce(topic, value=value, key=key)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(_UP):
            raise PipelineFailed(f"the broker has not acknowledged all records of {topic}")

    def records(self, topic: str) -> list[Mapping[str, Any]]:
        """Every record of a topic that is there now, with its key, headers and partition."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": "reader", "enable.auto.commit": False}, logger=_silent()
        )
        found: list[Mapping[str, Any]] = []
        try:
            for partition in consumer.list_topics(topic, timeout=_UP).topics[topic].partitions:
                first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_UP)
                consumer.assign([TopicPartition(topic, partition, first)])
                at = first
                while at < end:
                    for message in consumer.consume(10_000, timeout=1):
                        if message.error() is None:
                            at = message.offset() + 1
                            found.append(_record(message))
        finally:
            consumer.close()
        return found

    def _run(self, main: str, *arguments: str, memory: str = "256m") -> subprocess.Popen[bytes]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
        path = ":".join(map(str, jars("broker")))
        with (self._place / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [java, f"-Xmx{memory}", "-cp", path, main, *arguments, str(self._properties)], stdout=log, stderr=log
            )


def _record(message: Any) -> Mapping[str, Any]:
    return {
        "key": message.key(),
        "value": message.value(),
        "partition": message.partition(),
        "offset": message.offset(),
        "headers": {name: value.decode() for name, value in message.headers() or []},
    }


def _silent() -> Any:
    """A broker that is away is expected here; the library would write lines about it."""
    import logging

    logger = logging.getLogger("millstream.lab.kafka")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]
