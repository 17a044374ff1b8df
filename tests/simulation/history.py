"""What callers were told about their writes, to be compared with what is stored in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from simulation.simulation import Simulation
from stateward.errors import StatewardError, StoreUnavailable

STORED, REFUSED, UNKNOWN = "stored", "refused", "unknown"


@dataclass
class Attempt:
    """One write: what its caller was told, and when it began and ended."""

    mark: str
    began: int
    ended: int | None = None
    told: str = UNKNOWN


class History:
    """All writes of one run to one place, each with a mark that is found again where it went."""

    def __init__(self, simulation: Simulation, where: str) -> None:
        self._simulation = simulation
        self._where = where
        self.attempts: dict[str, Attempt] = {}

    @contextmanager
    def writing(self, mark: str, *refusals: type[StatewardError]) -> Iterator[Attempt]:
        """A write under way. Leaving normally means that the caller was told it is stored.

        A failing store and these refusals are part of the game; any other error is not.
        """
        attempt = Attempt(mark, self._simulation.sequence())
        self.attempts[mark] = attempt
        try:
            yield attempt
        except StoreUnavailable as error:
            attempt.told = UNKNOWN if error.applied == "unknown" else REFUSED
        except TimeoutError:
            attempt.told = UNKNOWN  # the caller gave up
        except refusals:
            attempt.told = REFUSED
        else:
            attempt.told = STORED
            attempt.ended = self._simulation.sequence()
        self._simulation.trace(None, "told", mark, attempt.told)

    @property
    def stored(self) -> list[str]:
        """The marks of all writes whose callers were told that they are stored."""
        return [mark for mark, attempt in self.attempts.items() if attempt.told == STORED]

    def judge(self, found: Sequence[str]) -> None:
        """Nothing acknowledged is missing, nothing refused is there, nothing is there twice."""
        require, where = self._simulation.require, self._where
        seen = set(found)
        require(len(seen) == len(found), f"{where}: something is stored twice in {found}")
        for mark in found:
            require(mark in self.attempts, f"{where}: {mark} was never written")
        for mark, attempt in self.attempts.items():
            if attempt.told == STORED:
                require(mark in seen, f"{where}: {mark} was acknowledged and is lost; {found}")
            if attempt.told == REFUSED:
                require(mark not in seen, f"{where}: {mark} was refused and is there all the same")
        self._judge_order(found)

    def _judge_order(self, found: Sequence[str]) -> None:
        """What was acknowledged before another write began stands before it."""
        latest_begin = 0
        for mark in found:
            attempt = self.attempts.get(mark)
            if attempt is None:
                continue
            if attempt.ended is not None and attempt.ended < latest_begin:
                self._simulation.violated(
                    f"{self._where}: {mark} stands behind what began after it had ended; {found}"
                )
            latest_begin = max(latest_begin, attempt.began)
