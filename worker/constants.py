"""The worker's tuned numbers, each with its unit, its reason and its evidence.

The limits of what an owner types stand where they are checked: `--phi` in `worker.owner.attach`,
`--limit` in `worker.owner.checks.population`. A server's settings stand in `qserver.config`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerConstants:
    """Slots, waits, intervals and sizes. No value depends on private data.

    How long a lease lasts is a setting: `lease_ms` in `qserver.config`.
    """

    group_jobs: int = 32
    """Most jobs that are spent for together: so many share the syncs of a group, and so many may
    be burnt by a crash. Not measured on a quiet machine: `python -m tests.benchmarks.throughput`
    does that."""

    group_planning_s: float = 0.1
    """Seconds of planning after which a group is closed, so that its first job does not wait long
    for the others. The rest is the next group. Not measured, as `group_jobs`."""

    group_price_share: int = 64
    """A group closes before its prices add up to more than this part of the limit, so that a crash
    burns little of it; a single job may cost more. Not measured: under 2 % of the limit."""

    refining_share: float = 0.98
    """Part of the length that would just do that is planned for where an answer is refined. At 1
    each round comes near and misses: 5 of 20 tables were longer after four rounds, at .98 none of
    22 (`python -m tests.benchmarks refining`, with any price)."""

    group_slots: int = 16
    """Slots of all draws of a group at which it closes: 80 ms with the default slot, the time of a
    plan. So nobody waits longer for a table that somebody asks later. A table of 19,000 cells takes
    13, or 63 with Gaussian noise."""

    rows_per_slot: int = 32
    """Rows with new noise that one slot holds. One core draws 32 in 2 ms, so the default slot of
    5 ms has room for twice that: of 40 times the longest took 2.3 to 2.8 in most runs."""

    table_as_rows: int = 3
    """Rows that take as long to draw as a table, beside its cells: one of 10 cells takes 150
    microseconds."""

    cells_as_row: int = 48
    """Cells that take as long to draw as a row: 0.75 microseconds each, 0.95 with little noise on a
    coarse step. That leaves room: 19,000 took 14 to 19 ms, of a slot of 65."""

    refined_as_new: int = 4
    """New answers that take as long to draw as one refined answer: 2.8 against 0.75
    microseconds for a cell. 19,000 took 50 to 60 ms, of a slot of 250."""

    gaussian_as_new: int = 5
    """New answers that take as long to draw as one with Gaussian noise. 6 rows took 1.1 ms, 1.5 to
    2.1 the longest of 40 in most runs, of a slot of 5; a table of 10 cells 0.4, the longest 1.1;
    19,000 cells 31, the longest 39, of a slot of 315. Little noise on a coarse step, which no
    answer has, took a third more, and 55 ms the longest."""

    awake_s: float = 0.001
    """Seconds before a slot's end from which the worker is awake. On two cores with a load of four
    a sleep ended .1 ms late in the median. What that tells: the benchmark `answer_times`."""

    sample_slots: int = 4
    """Slots added for drawing a secret sample and looking at it. A sample reads every record, as a
    count does, and copies a tenth of them. Not measured."""

    reads_per_slot: int = 1 << 19
    """Reads of a record's attribute that one slot holds, where a capacity is declared: 10 ns each
    in the default slot of 5 ms. Two million made-up records took 1 to 4 ns for a read on a busy
    core; attach times it on its own machine and refuses a slot that is too short."""

    sample_reads: int = 40
    """Reads that take as long as drawing a secret sample: 193 ns a record, with the same room."""

    large_sum_reads: int = 24
    """The same for a read of a sum that 64 bits do not hold: 104 ns."""

    slot_share: int = 2
    """A slot must hold this many times the scan that attach times, so that a busy machine keeps it.
    Not measured: the room that the slot has for draws."""

    timed_records: int = 1 << 22
    """Most records that attach makes up to time a scan; a larger capacity is reckoned from them, as
    a scan goes through equal chunks. Not measured: 4 MB for an attribute of up to 256 values."""

    timed_scans: int = 5
    """Times that attach times a scan; the fastest counts, as others wait for the processor."""

    checkpoint_entries: int = 128
    """Released answers and paid questions, together, after which a checkpoint is written anew.
    Measured rows join the algebra one by one until 64 have come; so a restart never has to
    factor them all anew. Writing takes 0.2 s at 5,000 rows: 3 ms for each question."""

    long_plan_s: float = 0.3
    """Seconds of planning from which a plan is kept on disk, for a worker that goes on for a dead
    one. Writing that of a median's 99 counts takes 0.02 s, planning them 1.6 s; a single question
    is planned in 0.03 s."""

    take_block_ms: int = 1000
    """Milliseconds that an idle worker waits for a job in one call; a stop request waits that long.
    Not measured: well under the 5 s after which the store's connection gives up."""

    lease_pause_s: float = 0.002
    """Seconds between two tries for a lease that another worker holds; a spend takes some 30 ms
    (docs/benchmarks.md). Checked by `python -m tests.faults fairness`."""

    owner_lease_pause_s: float = 0.01
    """The same for a rotation, where nobody waits for an answer. Not measured."""

    owner_lease_wait_s: float = 120.0
    """Seconds after which a rotation gives the lease up. Not measured: twelve times the default
    lease, and longer than the largest table takes to draw."""

    recovery_pause_s: float = 0.05
    """Seconds between two tries of a recovery for the lease. Not measured."""

    recovery_tries: int = 600
    """Tries before a recovery asks its owner to stop the worker: 30 s, three times the default
    lease, so that the lease of a dead worker has ended. Not measured."""

    beats_per_lease: int = 4
    """Heartbeats in the time of one lease: three may fail before it ends. Not measured."""

    claims_per_lease: int = 2
    """Looks for jobs of silent workers in the time of one lease. Not measured."""

    see_off_s: float = 1.0
    """Seconds between two looks for workers of this host that died; one look opens a file for each
    worker. Not measured."""

    check_s: float = 5.0
    """Seconds between two checks of the store's settings, which can change while it runs. One check
    is two reads. Not measured."""

    hangs_s: float = 300.0
    """Seconds without a turn after which the loop counts as hanging. The largest table takes 2 s to
    draw and 6 s to refine (docs/protocol.md), the rest of a turn less."""

    most_taken: int = 10
    """Times that a job is taken before it fails: it may be what ends each worker. Not measured."""

    job_keep_s: int = 7 * 86_400
    """Seconds that a free or a failed job can be read. A job that was paid for stays for ever. Not
    measured: a week for a client to come back."""

    first_pause_s: float = 0.1
    """Seconds before a worker looks again for a store that is away; doubled each time. Not
    measured."""

    longest_pause_s: float = 0.5
    """Most seconds between two looks for a store that is away. Not measured."""

    journal_chunk_bytes: int = 1 << 20
    """Bytes of a journal that are read at once. Not measured."""

    batch_records: int = 1 << 16
    """Records that are coded at once. Of twice as many a read of 5 million records of ten columns
    took 310 MB in place of 250, of half as many 225, each in about the same time."""

    varied_values: int = 1 << 15
    """Distinct values of a batch's column above which each record's value is coded for itself, and
    most values of a column whose codes are kept. Half a batch. Not measured."""

    few_texts_bytes: int = 1 << 16
    """Bytes of a Parquet file's own dictionary of a column below which texts are read by it. Of 3
    million records a dictionary of 1 MB took 1.2 s in place of .2, small ones half the time."""

    batch_rows_of_python: int = 1 << 15
    """The same for a source that gives Python's own objects, which take ten times the room."""

    people_records: int = 1 << 19
    """Records whose persons are numbered, or bounded, at once: some 20 MB while that is done, with
    seven attributes. Not measured beyond that."""

    lost_share: float = 0.95
    """Share of a column's values, missing or outside, above which attach, rotate and append refuse:
    what is read in another notation is lost as a whole, what is rare seldom. Not measured."""

    csv_head_bytes: int = 1 << 20
    """Bytes of a CSV file from which the number of its rows is guessed. Not measured."""

    csv_line_bytes: int = 1 << 21
    """Most bytes of the header line of a CSV file: DuckDB's own bound on a line."""

    csv_buffer_bytes: int = 1 << 22
    """Bytes of a CSV file that are read at once; a line may have half of it. With DuckDB's own 32
    MB a read of ten million records took 90 MB more, and no less time."""

    duckdb_megabytes: int = 512
    """Most memory that DuckDB takes to read a file of its own; a query that needs more goes by the
    disk. Not measured beyond ten million records, which took less."""

    progress_s: float = 3.0
    """Seconds between two lines of progress on the owner's terminal. Not measured."""

    report_share: float = 0.05
    """Part of the rows that may be missing, outside or dropped before the report warns. Not
    measured: a fault of the domain file, such as a label in another case, hits far more."""

    scan_chunk: int = 1 << 16
    """Records that a scan counts at once: their codes stay in the processor's cache. Not
    measured."""

    count_grid_cells: int = 1 << 20
    """Most class cells that are counted in a table; a query with more is summed record by record.
    Not measured: 8 MB of counts."""

    compared_cells: int = 16
    """Most cells that are counted by a comparison each; for more, a histogram is faster. It came
    with the change that made counting three times faster; its figures were not kept."""

    spark_open_s: float = 120.0
    """Most seconds that a session of Spark takes to open. Not measured: a local one took 6."""

    spark_close_s: float = 10.0
    """Most seconds that is waited for a session to stop. Not measured."""

    spark_retries: int = 4
    """Times that a call of Spark Connect is tried again: 4 s in all. Not measured: a server that is
    away for longer is told."""

    spark_ready_s: float = 60.0
    """Most seconds of the first small job in a session. Not measured: it took up to 20 on a busy
    machine that loaded Python for it, and a cluster may have to find machines."""

    spark_probe_s: float = 20.0
    """The same for each later one, before a charge: under one where Spark is there. Whoever asks is
    told before they stop to wait."""

    spark_job_s: float = 240.0
    """Most seconds of a count on Spark, so that a lost one does not look like a hanging worker:
    less than `hangs_s`."""

    spark_again_s: float = 10.0
    """Seconds for which a Spark that was lost is not tried again. Not measured: others' questions
    do not wait for it meanwhile."""

    spark_file_records: int = 1 << 22
    """Most records of a file of codes on Spark; so many codes of one attribute are in the worker's
    memory while they are digested. Not measured: 16 MB."""

    journal_free_bytes: int = 1 << 24
    """Free bytes on the disk of a journal below which nothing is charged. A group's lines of
    charges have some kilobytes each, those of its answers half a megabyte for each of the largest
    tables. Also what a worker writes to find out whether there is room. Not measured."""

    witness_free_bytes: int = 1 << 16
    """Free bytes on the disk of a witness below which nothing is charged: a line has 300, and a
    charge whose line cannot be written is lost. Not measured: room for a hundred charges."""

    free_megabytes: int = 100
    """Free megabytes below which `doctor` reports a fault: without room nothing can be journalled.
    Not measured."""


WORKER = WorkerConstants()
