"""The options that `WITH` knows: Millstream's own, and those of the sources and writers of Spark that are known here.

Spark ignores an option that it does not know, so a misspelt one would pass in silence. The options of a source that is
not listed here are handed on unchecked.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millstream.errors import ScriptError, did_you_mean, listing

STREAM_OPTIONS = ("time", "delay", "idle", "rate", "keys", "format", "path", "value", "epoch")
QUERY_OPTIONS = ("format", "path", "results", "compression", "retry", "weight")
FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
_CLOSE = 0.8
"""How similar a name must be to a known one to be refused where others are handed on."""


@dataclass(frozen=True, slots=True)
class Known:
    """The options of a reader or writer. Names that begin with one of `prefixes` are handed on; with `grows` all names
    are that resemble no known one, because the list changes from version to version.
    """

    names: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    grows: bool = False

    def takes(self, name: str) -> bool:
        lower = name.lower()
        known = [one.lower() for one in self.names]
        if lower in known or any(lower.startswith(prefix) for prefix in self.prefixes):
            return True
        return self.grows and not difflib.get_close_matches(lower, known, n=1, cutoff=_CLOSE)

    def lists(self, name: str) -> bool:
        """Whether it is known by name, and so not merely handed on."""
        return name.lower() in [one.lower() for one in self.names]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FOLDERS = _words(
    "pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter basePath ignoreCorruptFiles"
    " ignoreMissingFiles ignoreInvalidPartitionPaths timeZone"
)
_NEW_FILES = _words(
    "maxFilesPerTrigger maxBytesPerTrigger maxFileAge latestFirst fileNameOnly cleanSource sourceArchiveDir"
    " maxCachedFiles discardCachedInputRatio"
)
_WRITTEN = _words("timeZone maxRecordsPerFile partitionOverwriteMode")
_PARSED = _words(
    "charset encoding columnNameOfCorruptRecord compression dateFormat locale mode multiLine samplingRatio"
    " singleVariantColumn timeFormat timeZone timestampFormat timestampNTZFormat"
)
# Each as Spark's own code lists them, for reading and writing alike.
_FORMATS: Mapping[str, tuple[str, ...]] = {
    "parquet": _words("compression parquet.compression datetimeRebaseMode int96RebaseMode mergeSchema"),
    "orc": _words("compression orc.compress mergeSchema"),
    "text": _words("compression encoding lineSep wholetext"),
    "avro": _words(
        "avroSchema avroSchemaUrl compression datetimeRebaseMode enableStableIdentifiersForUnionType"
        " ignoreExtension mode positionalFieldMatching recordName recordNamespace recursiveFieldMaxDepth"
        " stableIdentifierPrefixForUnionType"
    ),
    "csv": _PARSED
    + _words(
        "charToEscapeQuoteEscaping codec columnPruning comment delimiter emptyValue enableDateTimeParsingFallback"
        " enforceSchema escape escapeQuotes extension header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace"
        " inferSchema inputBufferSize lineSep maxCharsPerColumn maxColumns nanValue negativeInf nullValue"
        " positiveInf preferDate quote quoteAll sep unescapedQuoteHandling"
    ),
    "json": _PARSED
    + _words(
        "allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros"
        " allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull"
        " enableDateTimeParsingFallback ignoreNullFields inferTimestamp lineSep prefersDecimal pretty"
        " primitivesAsString sortKeys useUnsafeRow writeNonAsciiCharacterAsCodePoint"
    ),
    "xml": _PARSED
    + _words(
        "arrayElementName attributePrefix declaration excludeAttribute ignoreNamespace ignoreSurroundingSpaces"
        " indent inferSchema nullValue preferDate prefersDecimal rootTag rowTag rowValidationXSDPath"
        " useLegacyXMLParser validateName valueTag wildcardColName"
    ),
}
_HADOOP = ("parquet.", "orc.", "avro.", "fs.", "mapreduce.")

READERS: Mapping[str, Known] = {
    **{kind: Known((*_NEW_FILES, *_FOLDERS, *own), _HADOOP) for kind, own in _FORMATS.items()},
    "kafka": Known(
        _words(
            "kafka.bootstrap.servers subscribe subscribePattern assign startingOffsets startingOffsetsByTimestamp"
            " startingTimestamp startingOffsetsByTimestampStrategy failOnDataLoss maxOffsetsPerTrigger"
            " minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition groupIdPrefix"
            " includeHeaders kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs"
        ),
        ("kafka.",),
    ),
    "rate": Known(_words("rowsPerSecond rampUpTime numPartitions")),
    "rate-micro-batch": Known(_words("rowsPerBatch numPartitions startTimestamp advanceMillisPerBatch")),
    "socket": Known(_words("host port includeTimestamp")),
    "delta": Known(
        _words(
            "maxFilesPerTrigger maxBytesPerTrigger ignoreDeletes ignoreChanges skipChangeCommits startingVersion"
            " startingTimestamp excludeRegex failOnDataLoss withEventTimeOrder readChangeFeed readChangeData"
            " schemaTrackingLocation schemaLocation streamingSourceTrackingId allowSourceColumnRename"
            " allowSourceColumnDrop allowSourceColumnTypeChange"
        ),
        grows=True,
    ),
    "iceberg": Known(
        _words(
            "stream-from-timestamp streaming-max-files-per-micro-batch streaming-max-rows-per-micro-batch"
            " streaming-skip-delete-snapshots streaming-skip-overwrite-snapshots split-size lookback"
            " file-open-cost vectorization-enabled batch-size"
        ),
        grows=True,
    ),
}
WRITERS: Mapping[str, Known] = {
    **{kind: Known((*_WRITTEN, *own), _HADOOP) for kind, own in _FORMATS.items() if kind != "parquet"},
    "parquet": Known(()),  # written here, and not by Spark
    "kafka": Known(_words("kafka.bootstrap.servers topic key includeHeaders"), ("kafka.",)),
    "console": Known(()),
    "memory": Known(()),
    "noop": Known(()),
    "delta": Known(
        _words(
            "table mergeSchema overwriteSchema replaceWhere partitionOverwriteMode maxRecordsPerFile"
            " optimizeWrite userMetadata dataChange txnAppId txnVersion"
        ),
        grows=True,
    ),
    "iceberg": Known(
        _words(
            "write-format target-file-size-bytes check-nullability check-ordering fanout-enabled isolation-level"
            " compression-codec compression-level compression-strategy branch mergeSchema"
        ),
        ("snapshot-property.",),
        grows=True,
    ),
    "jdbc": Known(
        _words(
            "url dbtable query driver user password numPartitions queryTimeout batchsize isolationLevel truncate"
            " cascadeTruncate createTableOptions createTableColumnTypes sessionInitStatement keytab principal"
            " tableComment refreshKrb5Config connectionProvider preferTimestampNTZ"
        ),
        grows=True,
    ),
}


def check_option(name: str, kind: str, *, read: bool) -> None:
    """Refuses an option that neither Millstream nor the reader or writer of this format knows."""
    ours, known = (STREAM_OPTIONS, READERS.get(kind)) if read else (QUERY_OPTIONS, WRITERS.get(kind))
    if known is None or name.lower() in ours or known.takes(name):
        return
    side = "reader" if read else "writer"
    also = f", and Spark's {kind} {side} {listing(known.names, 6)}" if known.names else ""
    raise ScriptError(
        f'no option "{name}"',
        f"a {'stream' if read else 'query'} with format = '{kind}' knows {listing(ours)}{also}",
        did_you_mean(name, (*ours, *known.names), "Remove it."),
    )


def handed_on(names: Iterable[str], kind: str, *, read: bool) -> list[str]:
    """The options that go to Spark, or further, without anything here knowing them."""
    ours, known = (STREAM_OPTIONS, READERS.get(kind)) if read else (QUERY_OPTIONS, WRITERS.get(kind))
    return [name for name in names if name.lower() not in ours and not (known and known.lists(name))]


def format_of(options: Iterable[tuple[str, str]]) -> str:
    """The format that options name, in lower case; Parquet where they name none."""
    return next((value.lower() for name, value in options if name.lower() == "format"), "parquet")
