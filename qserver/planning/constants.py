"""The planner's tuned numbers, each with its unit, its reason and its evidence.

A name in backticks is a benchmark: `python -m tests.benchmarks NAME`; docs/benchmarks.md has the
results. "Not measured alone" means that it shows only what several do together. "Short streams" are
the first 20 to 120 questions of 50 cuts, boxes, covid (Zipf 1, replace-one), overlapping predicates
that return and ranges of mixed lengths, one seed that chose nothing, with half and twice the value:
what the spend at the end changes by. No value depends on private data.
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

    convex_ratio: float = 2.0
    """The same under Gaussian noise, with which twice the better of own rows and base is proven."""

    in_parts: float = 0.05
    """Added to the ratio that one more row would lead to: a base bought in parts ends dearer.
    Measured: without it 2 of 4 runs on declared cuts of `ratio` end 25 and 39 percent dearer; of
    108 others one does, by 5 percent. Without that ratio 4 of 61 end 4 to 27 percent dearer."""

    scarce: float = 10.0
    """Times the limit that own rows of all expected questions must cost before blocks are bought
    for these. Measured on `lifetime`'s stream, limit 1, six seeds: of 100 questions 371 in all are
    answered without the word, 358 with it, and 262 with no such test; of 300 questions 691 and 673;
    of 30 as many; of 1,000 on nine seeds 2,146 and 2,964."""

    earlier_part: float = 0.25
    """Price that rows may waste before the known base of earlier questions is bought, as a part of
    phi times the base's price. Measured on replayed weeks: with the default phi such a week costs
    about 1.1 times the best blocks; twice as much would pass the 1.15 aimed at."""

    coarse_share: float = 0.65
    """Share of a question's variance that coarse blocks may have; a row of the rest has what is
    left. Measured on the first 120 questions of the streams of `blocks_spend`: at .5 a run on
    prefixes ends 13 percent dearer and the other 35 between 7 percent cheaper and 6 dearer; at .8
    one of eight on ranges ends 22 percent dearer."""

    spare: float = 0.15
    """How much more the finest block alone may cost than the best base, as a part of what is
    still to be paid. Measured: before it came, with one more rule, 4 of 80 runs on covid passed a
    ratio of 2.1 and none does since (`ratio`). Without it covid, replace-one, ends 5.5 percent
    dearer with Zipf 1, 28 at most, and 1.3 with Zipf 0 (six seeds)."""

    # The demand that a base is fitted to.
    most_choices: int = 256
    """Most components times squared terms of a query that a base is fitted to, requirements kept
    (half of them stay when there are more), roundings of one query, cells of a table that continue
    from rows measured before, and periods of a question that are measured one by one. Short
    streams: nothing."""

    most_fitted: int = 512
    """Most blocks and components of one fit, the work of which grows with their product; and paid
    questions, of this data or of earlier data, that count. Short streams: nothing."""

    most_values: int = 4096
    """Longest attribute that levels are learnt of, and error terms beyond which a sum of Laplace
    variables counts as normal. Short streams: half .1 percent less on one."""

    # Fitting a base.
    base_steps: int = 240
    """Most steps of one fit. Short streams: half .1 percent more on one, twice 1.3 on one."""

    watched_steps: int = 16
    """Steps after which a fit is looked at. Measured with `noticeable`: two sets of 120 fits on the
    streams of `many_attributes` took .55 of the time and cost 1.0001 times as much in the mean, at
    most 1.006."""

    noticeable: float = 1e-4
    """A fit ends once the steps between two looks save no more than this part of its
    price. Measured with `watched_steps`."""

    near: float = 0.02
    """Relative change of a target that makes another round worthwhile, by which a variance may
    pass its target before a base is fitted anew, and beyond the first guess of a search. Short
    streams: half of it 8.9 percent more on one of five; twice .2."""

    small_part: float = 2e-3
    """What does not matter, as a part of the whole: a block's share in what holds a variance down,
    or in all raises; the raise that every block starts with, over the largest; the part of its
    alpha that a row that costs nothing counts with; room in the scale of a base. Measured: with
    this one value in place of .01, .002 and .001 citibike ends at .931 and 1.000 of before (two
    seeds). Short streams: half nothing, twice .3 percent less on one."""

    tries: int = 6
    """How many candidates are compared where each takes work: further starts of a fit, the same
    ones for problems of one shape; rounds of comparing targets with the exact tail, and the
    requirements that bind most in a round; roundings whose row of the rest needs the least alpha;
    checks of a scaled base. Measured on 15 streams, two seeds: without further starts boxes end 9.5
    percent dearer and covid, Zipf 0, 3.6; the mean is .9. Without such rounds the spend is .999 in
    the mean, but one of covid passes the ratio of 2.1 (2.115). Short streams: half of all 2,
    5 and 33 percent more on three of five; twice nothing."""

    block_power: float = 0.35
    """Exponent of the multiplicative step of blocks. Measured, .8 and 1.25 times: three of
    four streams end the same within .01 percent, one on cuts at 1.013; citibike at 1.00 to 1.14
    (two seeds), as with any change of a fit."""

    target_power: float = 0.6
    """Exponent of the multiplicative step of multipliers. Measured in the same way: one on cuts at
    1.013, citibike at 1.00 to 1.05."""

    # What one question needs of a base.
    parts: int = 4096
    """Parts of a base are multiples of one over this. Measured, half and twice: four streams and
    citibike (two seeds) end the same within .01 percent."""

    largest: float = 64.0
    """Multiple of a base, or of a row's alpha by variance, beyond which a search ends without a
    result. Short streams: nothing."""

    # Levels learnt from questions.
    digits: int = 3
    """Binary digits of the number of paid questions at which levels are learnt anew. Measured, one
    seed: with 1 overlapping predicates end 13 and 40 percent dearer, bands 30 percent and ranges of
    mixed lengths 6 cheaper, 16 streams the same. 2 and 6: nothing on short streams."""

    learnt_worth: float = 0.7
    """Learnt levels are used if the rest of a base costs at most this part of what it costs on
    the present ones. Measured on seeds that chose nothing: without learnt levels, eight
    overlapping predicates on each of two attributes that return end 1.66 times as dear, six on each
    of four 2.16 (three seeds); bands that never overlap, which rows answer best, .75 and .78 (six
    seeds)."""

    sample: int = 64
    """Latest questions that lattices are compared on, questions of a workload that a scale is first
    sought for, and up to which tables help its rows. Short streams: nothing."""

    kept: int = 16
    """Scopes whose demand is remembered, and lattices. Short streams: nothing."""

    doubt: int = 4
    """Sightings added to the real ones, all of them new. The standard
    deviation that is added as well was: the worst ratio on 50 cuts fell from 2.06 to 1.84.
    Short streams: half nothing, twice 15 percent more on one."""

    wide: float = 12.0
    """Finer parts per part above which a regular level is put between. Short streams: half of
    it changes nothing."""

    # A level of unequal parts for a workload.
    uneven_starts: tuple[int, ...] = (4, 5, 6, 8)
    """Numbers of equal parts that the search starts from. Not measured alone: the whole search
    lowers the second batch of `apex` from 0.0595 to 0.0538."""

    uneven_shares: tuple[float, ...] = (0.45, 0.5, 0.55)
    """Shares of the price that cells get. Measured on `apex`: with .5, .45 or .55 alone the second
    batch costs 1.3, 1.7 and .8 percent more."""

    uneven_first_step: int = 16
    """The first step is one cell in this many. Measured on `apex`: from half or a quarter of an
    equal part on, the second batch costs .9 and 1.3 percent more by the union bound."""

    # Workloads.
    work_part: float = 0.5
    """Part of the work left that one way of planning a workload may take. Measured on `apex`: with
    1 the batches cost the same and take 1.3 times as long."""

    # Rows and tables.
    most_priced_rows: int = 24
    """Rows beyond which prices are not told apart: each costs an evaluation of the ledger. Not
    measured alone: beyond it free own rows are not improved, without which planning citibike took
    1.1 s at p99 (`blocks_spend`)."""

    period_share: float = 2.1
    """Price in parts of the cheapest other way up to which a question that returns is measured
    period by period.
    Streams as in benchmark `weeks`, begun on 13 weeks, 20 arrivals: windows of four spend .057 at
    2.1 and .12 at 1, a dashboard .24 and .33. At 4 windows of 13 spend .10 in place of .39, but
    totals so far .16 in place of .13. It costs windows that never meet up to the factor."""

    # Memory.
    entries: int = 1 << 16
    """Most numbers in an array of questions and cells that a level is sought for, and most cells of
    rows that are remembered: half a megabyte of numbers. Short streams: nothing."""

    # Guards of floating-point arithmetic.
    public_alpha: float = 1000.0
    """Alpha, in epsilon, that stands for no noise where a base is fitted. Not tuned: far above any
    limit."""

    tiny: float = 1e-100
    """In place of 0 in a divisor: of a precision, an alpha or a price."""

    unmet: float = 1e30
    """A use of a target above this means that no block reaches the query."""

    negligible: float = 1e-12
    """In place of 0 where a block costs nothing, and where the logarithm of a chance is taken."""

    rounding: float = 1e-8
    """Relative room for rounding where half-widths and requirements are compared."""

    # Work: about as many microseconds on a quiet machine, counted in place of time.
    question_work: float = 95_000.0
    """Work after which a plan for one question begins no further search. A base of the state counts
    for each question that looks at it, whoever fitted it. It was 85,000 before `search_work` was
    counted in full: on fresh seeds 21 streams of 80 questions then spent .1 percent more than with
    200 ms and fits that ended with it, single ones .99 to 1.06 times as much. With 85,000 now the
    dashboard of `weeks` spends 11 percent more."""

    fit_work: float = 25_000.0
    """What one fit may take. It may begin until `question_work` is done, so a plan's search ends
    after 120 ms; prices of what it found come on top. The demand of earlier data has as much for
    itself. With 15,000 bases for a year of weeks end unfinished: the dashboard of `weeks` spends
    57 percent more."""

    workload_work: float = 2_500_000.0
    """What the base of a workload may take: some 2.5 s, as the batches of `apex` do."""

    evaluation_work: float = 600.0
    """One evaluation of a query on blocks by the exact tail, of the ledger, or of a query's
    components; a plan by rows alone counts as two. Measured with the two below on 12 streams, 60
    questions each."""

    search_work: float = 2_400.0
    """One search for the price of own rows alone. With `look_work` 1.3 to 8 ms were measured on 100
    sums of up to 500 rows on 2 to 30 attributes."""

    look_work: float = 0.2
    """The same per entry that a round of its steps looks at. What it begins from takes 5 to 20 ms
    more, once after each purchase."""

    row_of_history_work: float = 40.0
    """The same per row of history that gives the question, as each of them may be raised. Measured
    (`explains`): .2 s where 5,000 rows give it."""

    step_work: float = 10.0
    """One step of a fit, whatever its size: see `evaluation_work`."""

    product_work: float = 3e-4
    """One step per component and per block or target: see `evaluation_work`."""

    @property
    def joint_work(self) -> int:
        """Multiplications of the last joint bound: the work of a plan. Other bounds take a tenth.

        Measured on `apex` with 333 million: three times as many spend .3 and .1 percent less.
        """
        return int(self.question_work / self.product_work)


PLANNER = PlannerConstants()
