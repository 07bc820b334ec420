"""The machine's clock: small steps are taken over; a jump ahead waits until it is believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from belvedere.time.machine_clock import MachineClock, Ticks, duration_text, machine_ticks, setting_text
from belvedere.values.instants import microseconds

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@dataclass
class Machine:
    """A clock that can be set, and a counter that cannot."""

    clock: datetime = START
    passed: timedelta = timedelta(minutes=7)
    started: str = "first"
    reported: list[str] = field(default_factory=list)

    def run(self, length: timedelta) -> None:
        self.clock, self.passed = self.clock + length, self.passed + length

    def open(self, noted: dict[str, object] | None = None, *, accept: bool = False) -> MachineClock:
        def clock() -> int:
            return microseconds(self.clock)

        def counter() -> int:
            return self.passed // timedelta(microseconds=1)

        found = MachineClock(noted, accept=accept, ticks=Ticks(clock, counter, self.started))
        found.notify = self.reported.append
        return found


def unknown() -> None:
    return None


def test_small_steps_are_taken_over_however_many_they_are() -> None:
    machine = Machine()
    clock = machine.open()
    for _ in range(10):
        machine.run(MINUTE)
        machine.clock += 59 * MINUTE
        assert clock.now() == machine.clock
    machine.clock -= 3 * DAY
    assert clock.now() == machine.clock, "a clock that is set back is what it is: epochs stand still by themselves"
    machine.clock += 3 * DAY
    clock.heed(unknown)
    assert (clock.now(), machine.reported) == (machine.clock, []), "and set right again it has not jumped"


def test_a_jump_ahead_waits_until_the_clock_agrees_again() -> None:
    machine = Machine()
    clock = machine.open()
    clock.now()
    machine.clock += 10 * DAY
    machine.run(MINUTE)
    for _ in range(2):
        clock.heed(unknown)
    assert clock.now() == START + MINUTE
    assert machine.reported == [
        "the clock of this machine has jumped ahead by 10 days: now() continues from before the jump; "
        "if it is right, start again with --accept-clock"
    ]
    machine.run(61 * MINUTE)
    clock.heed(unknown)
    assert len(machine.reported) == 2, "it is told each hour"
    machine.clock -= 10 * DAY
    clock.heed(unknown)
    assert clock.now() == START + 62 * MINUTE
    assert len(machine.reported) == 2


@pytest.mark.parametrize(("off", "believed"), [(timedelta(), True), (-30 * MINUTE, True), (-10 * DAY, False)])
def test_a_jump_is_believed_where_another_machine_says_the_same(off: timedelta, believed: bool) -> None:
    machine = Machine()
    clock = machine.open()
    clock.now()
    machine.clock += 10 * DAY
    clock.heed(lambda: microseconds(machine.clock + off))
    assert clock.now() == (machine.clock if believed else START)
    assert bool(machine.reported) != believed


def test_what_an_epoch_noted_counts_in_the_next_process_of_the_same_machine() -> None:
    machine = Machine()
    clock = machine.open()
    clock.now()
    noted = clock.document()
    machine.run(10 * DAY)
    assert machine.open(noted).now() == machine.clock, "a run that was down for ten days starts"
    machine.clock += DAY
    jumped = machine.open(noted)
    assert jumped.now() == machine.clock - DAY
    assert jumped.document() == noted, "and the next one knows it too"
    accepted = machine.open(noted, accept=True)
    assert accepted.now() == machine.clock
    machine.run(MINUTE)
    assert machine.open(accepted.document()).now() == machine.clock, "what was accepted once stays accepted"
    machine.started = "second"
    assert machine.open(noted).now() == machine.clock, (
        "after a restart of the machine nobody knows how long it was down"
    )


def test_this_machine_has_a_clock_and_a_counter() -> None:
    ticks = machine_ticks()
    before = ticks.clock(), ticks.counter()
    assert before <= (ticks.clock(), ticks.counter())
    assert abs(MachineClock().now() - datetime.now(UTC)) < MINUTE


@pytest.mark.parametrize(
    ("length", "text"), [(61 * MINUTE, "an hour"), (30 * 60 * MINUTE, "30 hours"), (10 * DAY, "10 days")]
)
def test_durations_for_people(length: timedelta, text: str) -> None:
    assert duration_text(length // timedelta(microseconds=1)) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [(DAY, "1 day"), (36 * 60 * MINUTE, "36 hours"), (MINUTE, "1 minute"), (timedelta(seconds=90), "90 seconds")],
)
def test_lengths_of_settings_are_exact(length: timedelta, text: str) -> None:
    assert setting_text(length) == text
