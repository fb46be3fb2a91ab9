"""`millstream rescale`: another number of slots for a pipeline, running or stopped."""

from __future__ import annotations

import click

from millstream.cli.words import counted


@click.command()
@click.argument("directory")
@click.option("--slots", type=int, required=True, help="How many parts of the partition groups are worked on at once.")
def rescale(directory: str, slots: int) -> None:
    """Divide the keys of the pipeline in DIRECTORY among another number of slots.

    Partition groups change slots between two batches. No row is copied, and nothing is restarted.
    """
    from millstream.pipeline.changes import Changes

    changes = Changes.of(directory)
    click.echo(f"{counted(slots, 'slot')}: {changes.outcome(changes.rescale(slots))}")
