"""The planner's tuned numbers, each with its unit, its reason and its evidence.

A name in backticks is a benchmark: `python -m tests.benchmarks NAME`; docs/benchmarks.md has the
results. "Not measured" means that no kept benchmark compared the value with others; "not measured
alone", that a benchmark shows only what all values do together. No value depends on private data.
All processes must use the same ones, since each plans anew what another one has priced.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannerConstants:
    """Thresholds of the rule, sizes of searches, and work. One unit of work is about 1 us."""

    # When to buy blocks.
    most_ratio: float = 1.85
    """Most spend after a purchase of blocks, with room for one more question, over the price of
    own rows alone. Measured on the streams of `blocks_spend`: at 2.0 the spend at the end is up to
    15 percent less, but on ranges the ratio of `ratio` passes 1.85."""

    in_parts: float = 0.05
    """Added to the ratio that one more row would lead to: a base bought in parts ends dearer.
    Measured: without it 2 of 4 runs on declared cuts of `ratio` end 25 and 39 percent dearer; of
    108 others one does, by 5 percent. Without that ratio 4 of 61 end 4 to 27 percent dearer."""

    earlier_part: float = 0.25
    """Price that rows may waste before the known base of earlier questions is bought, as a part of
    phi times the base's price. Measured on replayed weeks: with the default phi such a week costs
    about 1.1 times the best blocks; twice as much would pass the 1.15 aimed at."""

    most_earlier: int = 1_000
    """Questions of earlier data that count, the last ones. Not measured."""

    coarse_share: float = 0.65
    """Share of a question's variance that coarse blocks may have; a row of the rest has what is
    left. Measured on the first 120 questions of the streams of `blocks_spend`: at .5 a run on
    prefixes ends 13 percent dearer and the other 35 between 7 percent cheaper and 6 dearer; at .8
    one of eight on ranges ends 22 percent dearer."""

    spare: float = 0.15
    """How much more the finest block alone may cost than the best base, as a part of what is
    still to be paid. Measured: before it came, with one more rule, 4 of 80 runs on covid passed a
    ratio of 2.1 and none does since (`ratio`)."""

    plenty: float = 10.0
    """Own rows alone are counted up to this many prices of the dearest base: beyond that, the rule
    decides the same. Not measured."""

    # The demand that a base is fitted to.
    most_wants: int = 160
    """Most requirements kept; half of them stay when there are more. Not measured: it limits the
    time of a fit."""

    most_parts: int = 256
    """Most components times squared terms of a query that a base is fitted to. Not measured."""

    most_components: int = 512
    """Most blocks and components of one fit: the work grows with their product. Not measured."""

    many_errors: int = 3000
    """Error terms beyond which a sum of Laplace variables counts as normal. Not measured."""

    want_tolerance: float = 1e-9
    """Relative room for rounding when one requirement is compared with another. Not tuned."""

    # Fitting a base.
    base_steps: int = 240
    """Most steps of one fit. Not measured."""

    watched_steps: int = 16
    """Steps after which a fit is looked at. Measured with `noticeable`: two sets of 120 fits on the
    streams of `many_attributes` took .55 of the time and cost 1.0001 times as much in the mean, at
    most 1.006."""

    noticeable: float = 1e-4
    """A fit ends once the steps between two looks save no more than this part of its price."""

    rough_steps: int = 80
    """Steps of a fit that only compares lattices. Not measured."""

    block_power: float = 0.35
    """Exponent of the multiplicative step of blocks. Not measured."""

    target_power: float = 0.6
    """Exponent of the multiplicative step of multipliers. Not measured."""

    random_starts: int = 6
    """Further starts of a fit, the same ones for problems of one shape. Not measured."""

    negligible_part: float = 2e-3
    """Blocks below this part of all raises are dropped if the price does not rise. Not measured."""

    revived_part: float = 1e-3
    """Part of the largest raise that every block starts with, so that none stays at zero. Not
    measured."""

    calibrations: int = 3
    """Most rounds of comparing targets with the exact tail. Not measured."""

    calibrated_wants: int = 12
    """Requirements that are compared in one round: those that bind most. Not measured."""

    binding_use: float = 0.6
    """Part of its target above which a variance counts as binding. Not measured."""

    calibration_off: float = 0.02
    """Relative change of a target that makes another round worthwhile, and by which a variance may
    pass its target before a base is fitted anew. Not measured."""

    useful_share: float = 0.01
    """Share in what holds a variance down below which a block does not matter. Not measured."""

    # What one question needs of a base.
    parts: int = 4096
    """Parts of a base are multiples of one over this. Not measured."""

    bisect_every: int = 4
    """In every fourth step a search for a least number halves the interval, so that it ends for
    any function. Not measured."""

    beyond: float = 1.02
    """Where a first guess is too small, the next one is this times what would do for a half-width
    that falls like one over alpha. Not measured."""

    largest_part: float = 64.0
    """Multiple of a base beyond which a search ends without a result. Not measured."""

    largest_row: float = 8.0
    """The same for a row, over its alpha by variance. Not measured."""

    priced_roundings: int = 6
    """Roundings that are priced: those whose row of the rest needs the least alpha. Not measured.
    """

    most_roundings: int = 256
    """Most choices of levels and sides of one query. Not measured: it limits time."""

    rounding_shares: tuple[float, ...] = (0.5, 1e-9, 1.0)
    """A part is taken if at least this share of it is inside: nearest, outer, inner."""

    # Levels learnt from questions.
    most_read: int = 512
    """Paid questions that levels are learnt from: by then purchases have settled the levels. Not
    measured."""

    digits: int = 3
    """Binary digits of the number of paid questions at which levels are learnt anew. Not measured:
    saves time."""

    compared_questions: int = 64
    """Latest questions that lattices are compared on. Not measured: it limits time."""

    learnt_worth: float = 0.7
    """Learnt levels are used if the rest of a base costs at most this part of what it costs on
    the present ones. Not measured alone: tests/benchmarks/studies/planner.md."""

    kept_lattices: int = 8
    """Lattices kept for reuse. Not measured: memory."""

    most_learnt_values: int = 4096
    """Longest attribute that levels are learnt of: longer ones take too long. Not measured."""

    least_learnt_values: int = 6
    """Shortest attribute that levels are learnt of. Not measured."""

    most_novel: float = 0.5
    """Chance of new breakpoints above which levels stay regular. Not measured
    alone."""

    values_per_class: int = 2
    """Least values per class of values that no predicate tells apart, where levels are learnt.
    Not measured alone."""

    doubt: int = 4
    """Sightings added to the real ones, all of them new. Not measured alone. The standard
    deviation that is added as well was: the worst ratio on 50 cuts fell from 2.06 to 1.84."""

    wide: float = 12.0
    """Finer parts per part above which a regular level is put between. Not measured."""

    # A level of unequal parts for a workload.
    uneven_entries: int = 1 << 16
    """Most questions times cells that such a level is sought for. Not measured: it limits time."""

    uneven_least_cells: int = 8
    """Fewest cells that such a level is sought for. Not measured."""

    uneven_starts: tuple[int, ...] = (4, 5, 6, 8)
    """Numbers of equal parts that the search starts from. Not measured alone: the whole search
    lowers the second batch of `apex` from 0.0595 to 0.0538."""

    uneven_shares: tuple[float, ...] = (0.45, 0.5, 0.55)
    """Shares of the price that cells get. Not measured alone: see `uneven_starts`."""

    uneven_prices: int = 2_000
    """Most prices of one search. Not measured: it limits time."""

    uneven_better: float = 1e-4
    """Least relative gain of one step. Not measured."""

    uneven_first_step: int = 16
    """The first step is one cell in this many. Not measured."""

    uneven_least_power: float = 2.0
    """Least exponent of the norm that ranks partitions. Not measured."""

    # Workloads.
    views_compared_on: int = 64
    """Questions of a workload that lattices are compared on. Not measured: it limits time."""

    view_as_good: float = 1.25
    """Lattices are fitted in full up to this factor of the best rough price. Not measured."""

    fit_part: float = 0.5
    """Part of the work left that one fit of a workload may take. Not measured."""

    single_part: float = 0.5
    """Part of the work for single plans after which the rest is planned by rows. Not measured."""

    scalings: int = 10
    """Bisections for the scale of a base: 1 in 1,024. Not measured."""

    hardest: int = 32
    """Questions that a scale is sought on first: those that fail soonest. Not measured."""

    scaling_rounds: int = 3
    """Rounds of adding questions that still fail, before all are searched. Not measured."""

    same_price: float = 1e-6
    """Relative difference of prices below which blocks are preferred: they serve later questions.
    Not measured."""

    helped_rows: int = 64
    """Questions of a workload up to which tables help its rows. Not measured: it limits time."""

    # Workloads whose intervals hold at once.
    joint_search_work: int = 100_000_000
    """Multiplications of one joint bound while the base is sought: some 50 ms on one core. Not
    measured alone: `apex` uses it."""

    joint_final_work: int = 1_000_000_000
    """The same of the last check. Not measured alone: `apex` uses it."""

    joint_refits: int = 1
    """Fits to looser requirements after the first. Not measured alone: `apex` uses it."""

    joint_views: int = 2
    """Lattices that are tried. Not measured alone: `apex` uses it."""

    union_part: float = 0.5
    """Part of the work for the plan of the union bound. Not measured."""

    joint_checks: int = 6
    """Most checks of a scaled base. Not measured."""

    joint_earlier: int = 3
    """Earlier states of history that are tried before anything is bought. Not measured."""

    joint_step: float = 1.003
    """Largest step up after a check that failed. Not measured."""

    joint_over: float = 1.0002
    """Factor beyond what the last bound lacked. Not measured."""

    joint_slack: float = 0.0023
    """Relative room in the scale below which the search ends. Not measured."""

    joint_careful: float = 0.9
    """Part of that room that one step down uses. Not measured."""

    # Rows and tables.
    most_priced_rows: int = 24
    """Rows beyond which prices are not told apart: each costs an evaluation of the ledger. Not
    measured alone: beyond it free own rows are not improved, without which planning citibike took
    1.1 s at p99 (`blocks_spend`)."""

    most_periods_apart: int = 128
    """Most periods of a question that are measured one by one. Not measured: some 0.1 ms each."""

    most_alpha_apart_nano: int = 10**15
    """Where the search for an alpha of rows by period gives up: more than any limit."""

    period_bits: int = 14
    """Bits of that alpha: it is at most a 16,000th above the least."""

    period_share: float = 2.1
    """Price in parts of the cheapest other way up to which a question that returns is measured
    period by period.
    Streams as in benchmark `weeks`, begun on 13 weeks, 20 arrivals: windows of four spend .057 at
    2.1 and .12 at 1, a dashboard .24 and .33. At 4 windows of 13 spend .10 in place of .39, but
    totals so far .16 in place of .13. It costs windows that never meet up to the factor."""

    least_row_price: float = 1e-3
    """Least price of a row per unit of alpha, so that a row that costs nothing now still counts.
    Not measured."""

    most_sources: int = 256
    """Most cells of a table that continue from rows measured before. Not measured: it limits the
    size of a plan."""

    roomy_steps: int = 2
    """Lattice steps of room for a row that is found without a search. The proof in `allocation`
    needs one; the other is room for rounding."""

    kept_scopes: int = 64
    """Scopes whose demand is remembered. Not measured: memory."""

    kept_cells: int = 1 << 15
    """Pairs of a partition and a row whose cell is remembered. Not measured: memory."""

    public_alpha: float = 1000.0
    """Alpha, in epsilon, that stands for no noise where a base is fitted. Not tuned: far above any
    limit."""

    # Work: about as many microseconds on a quiet machine, counted in place of time.
    question_work: float = 200_000.0
    """What a plan for one question may take, but for the bases of a state. The aim is 200 ms at
    p99: `blocks_spend`. Measured on 16 streams of 80 to 250 questions: all that was not counted
    before makes none of them dearer. At 150,000 one of six ends 8 percent dearer; at 100,000 two of
    six do, by 8 and 4, and one 2 cheaper."""

    base_work: float = 150_000.0
    """What a base of all paid questions, or of a scope's, may take; it serves until something is
    paid for. Not measured alone."""

    workload_work: float = 5_000_000.0
    """What the base of a workload may take: some 5 s, as the batches of `apex` do."""

    apart_work: float = 3_000_000.0
    """What the single plans of a workload's questions may take together. Not measured."""

    evaluation_work: float = 1_500.0
    """One evaluation of a query on blocks by the exact tail. Not measured by a benchmark."""

    sight_work: float = 500.0
    """Finding the components of one query on a lattice. Not measured by a benchmark."""

    rows_alone_work: float = 3_000.0
    """The plan of one question by rows alone, which is never ended early. Not measured by a
    benchmark."""

    row_of_history_work: float = 40.0
    """The same per row of history that gives the question, as each of them may be raised. Measured
    (`explains`): .2 s where 5,000 rows give it."""

    price_work: float = 1_000.0
    """One evaluation of the ledger. Not measured by a benchmark."""

    own_row_work: float = 1_000.0
    """The least raise of a query's own row together with tables. Not measured by a benchmark."""

    step_work: float = 20.0
    """One step of a fit, whatever its size. Not measured by a benchmark."""

    product_work: float = 6e-4
    """One step per component and per block or target. Not measured by a benchmark."""

    joint_product_work: float = 5e-4
    """One multiplication of a joint bound. Not measured by a benchmark."""

    uneven_work: float = 50.0
    """One price of unequal parts, whatever its size. Not measured by a benchmark."""

    uneven_entry_work: float = 0.05
    """The same per question and part. Not measured by a benchmark."""

    # Guards of floating-point arithmetic; none is tuned.
    tiny: float = 1e-300
    """In place of 0 in a divisor."""

    nothing_known: float = 1e-100
    """Precision of a component that nothing is known of."""

    unmet: float = 1e60
    """A use of a target above this cannot be scaled away."""

    reached_use: float = 1e30
    """A use above this means that no block reaches the query."""

    free_cost: float = 1e-12
    """Cost in place of 0 where a block costs nothing."""

    least_alpha: float = 1e-9
    """Least alpha, in epsilon: one nano-epsilon."""

    least_miss: float = 1e-12
    """Least chance of a miss whose logarithm is taken."""

    evaluation_room: float = 1.0 + 1e-8
    """Factor on an alpha that covers the rounding of a half-width."""


PLANNER = PlannerConstants()
