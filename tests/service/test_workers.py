from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from yinyan.service.problems import OverloadedError, TookTooLongError
from yinyan.service.workers import Counter, Desk


def test_a_counter_answers_together_and_each_their_own() -> None:
    batches: list[int] = []
    hold = threading.Event()

    def doubled(questions: Sequence[int]) -> list[int | Exception]:
        hold.wait(5)
        batches.append(len(questions))
        return [ValueError("odd") if q % 2 else 2 * q for q in questions]

    async def main() -> list[object]:
        tasks = [asyncio.create_task(counter.ask(number)) for number in range(9)]
        await asyncio.sleep(0.1)
        hold.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    counter = Counter("test", doubled, waiting=100, seconds=5, most=4)
    answers = asyncio.run(main())
    counter.close()
    assert [a for a in answers if not isinstance(a, ValueError)] == [0, 4, 8, 12, 16]
    assert sum(isinstance(a, ValueError) for a in answers) == 4
    assert sum(batches) == 9 and max(batches) == 4 and len(batches) <= 4  # those who waited were answered together


def test_a_counter_refuses_and_gives_up() -> None:
    hold = threading.Event()
    seen: list[int] = []

    def slow(questions: Sequence[int]) -> list[int]:
        hold.wait(5)
        seen.extend(questions)
        return list(questions)

    async def main() -> None:
        first = asyncio.create_task(counter.ask(1))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(counter.ask(2))
        await asyncio.sleep(0)
        assert counter.is_full and counter.pending == 1
        with pytest.raises(OverloadedError, match="ask again"):
            await counter.ask(3)
        for waiting in (first, second):
            with pytest.raises(TookTooLongError, match=r"0\.2 s"):
                await waiting
        hold.set()

    counter = Counter("test", slow, waiting=1, seconds=0.2, most=4)
    asyncio.run(main())
    counter.close()
    assert seen == [1]  # nobody waited for the second any longer, and it was not begun


def test_an_error_of_the_work_reaches_everybody() -> None:
    counter: Counter[int, int] = Counter("test", lambda questions: [1 // 0], waiting=9, seconds=5, most=4)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(counter.ask(1))
    counter.close()


def test_a_desk_works_on_a_few_at_a_time() -> None:
    now, most = 0, 0
    lock = threading.Lock()

    def work() -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return 1

    async def main() -> list[object]:
        asked = [asyncio.create_task(desk.ask(work)) for _ in range(8)]
        return await asyncio.gather(*asked, return_exceptions=True)

    desk = Desk("test", at_once=2, waiting=4, seconds=5)
    answers = asyncio.run(main())
    desk.close()
    assert most == 2 and answers.count(1) == 6
    assert sum(isinstance(answer, OverloadedError) for answer in answers) == 2
