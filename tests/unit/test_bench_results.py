"""What the measurements of `bench/` make of their values: medians, ranges, ratios of a round, sizes, a command line."""

from __future__ import annotations

import pytest
from bench.__main__ import read_arguments
from bench.catalogue import MEASUREMENTS
from bench.figures import Outcome, Results, Sample, shown, table
from bench.ratios import RATIOS, ratios_of
from bench.sizes import Sizes


def outcome(**rates: float) -> Outcome:
    """One round's rates by name."""
    return Outcome(
        samples=[
            Sample(name=f"{name}: rate", value=value, unit="jobs/s", better="higher", how="by hand")
            for name, value in rates.items()
        ]
    )


def results(*rounds: Outcome) -> Results:
    """Several rounds."""
    gathered = Results()
    for one in rounds:
        gathered.begin_round()
        gathered.add(one)
    return gathered


def test_a_figure_is_the_median_of_its_rounds_with_their_range() -> None:
    gathered = results(outcome(drain=10.0), outcome(drain=30.0, bare=50.0), outcome(drain=11.0))
    drain, bare = gathered.figures()
    assert (drain.name, drain.median, drain.spread) == ("drain: rate", 11.0, (10.0, 30.0))
    assert (bare.name, bare.values) == ("bare: rate", [50.0])
    assert "10.0 … 30.0" in table([drain])


def test_a_ratio_is_made_within_each_round_and_not_of_medians() -> None:
    gathered = results(outcome(drain=10.0, bare=20.0), outcome(drain=40.0, bare=50.0), outcome(drain=7.0))
    (ratio,) = ratios_of(gathered.rounds)
    assert (ratio.name, ratio.values) == ("drain / bare", [0.5, 0.8])


def test_every_ratio_is_of_measurements_that_there_are() -> None:
    for ratio in RATIOS:
        assert ratio.of.split(":")[0] in MEASUREMENTS
        assert ratio.to.split(":")[0] in MEASUREMENTS


def test_sizes_that_a_measurement_does_not_have_are_left_to_the_others() -> None:
    sizes = Sizes({"jobs": 100.0}).replaced({"jobs": 5.0, "seconds": 3.0})
    assert sizes.values == {"jobs": 5.0}
    assert sizes.whole("jobs") == 5


@pytest.mark.parametrize(
    "mistake", [["nothing"], ["--set", "jobs"], ["--set", "jobs=many"], ["--set", "size=3"]]
)
def test_a_command_line_that_names_what_there_is_not_is_refused(mistake: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        read_arguments(mistake)
    assert refused.value.code == 2


def test_a_size_that_none_of_the_named_measurements_has_is_refused_with_those_they_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as refused:
        read_arguments(["drain", "--set", "drain=20000"])
    assert refused.value.code == 2
    assert f"the sizes there: {', '.join(sorted(MEASUREMENTS['drain'].sizes))}" in capsys.readouterr().err
    assert read_arguments(["drain", "--set", "jobs=20000"]).set == [("jobs", 20000.0)]


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.0, "0.00")]
)
def test_a_value_is_shown_with_the_digits_that_count(value: float, text: str) -> None:
    assert shown(value) == text
