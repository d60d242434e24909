"""Expected against reported cached tokens, over a gateway's decision log."""

from pods import BLOCK


HEAD = """| traffic | answers | exact | over | under | largest difference, tokens | within a block | causes |
|---|---|---|---|---|---|---|---|"""


class Tally:
    """What a part of the traffic came to."""

    def __init__(self, name: str, records: list[dict]):
        self.name = name
        told = [record for record in records if record["cached_tokens"] is not None]
        differ = [record for record in told if record["expected_tokens"] != record["cached_tokens"]]
        self.told, self.untold, self.exact = len(told), len(records) - len(told), len(told) - len(differ)
        self.over = sum(record["expected_tokens"] > record["cached_tokens"] for record in differ)
        self.under = len(differ) - self.over
        self.largest = max((abs(r["expected_tokens"] - r["cached_tokens"]) for r in differ), default=0)
        self.near = sum(abs(r["expected_tokens"] - r["cached_tokens"]) <= BLOCK for r in told)
        self.causes: dict[str, int] = {}
        for record in differ:
            cause = record["cause"] or "unexplained"
            self.causes[cause] = self.causes.get(cause, 0) + 1
        self.window = longest_window([record["unix_ms"] for record in differ if record["cause"] in UNHEARD])
        self.unexplained = [r for r in differ if (r["cause"] or "unexplained") in ("unexplained", "prompt_differs")]

    def row(self) -> str:
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(self.causes.items())) or "none"
        near = 100 * self.near / max(self.told, 1)
        if self.causes.keys() & UNHEARD:
            causes += f"; healed after {self.window:.0f} s"
        return (
            f"| {self.name} | {self.told} | {self.exact} | {self.over} | {self.under} | {self.largest} "
            f"| {near:.2f}% | {causes} |"
        )


# Causes that are events which did not come in time.
UNHEARD = {"events_late", "no_events", "events_lost"}


def longest_window(times: list[int]) -> float:
    """The longest time in which answers differed from what was expected, in seconds; five without a difference end it."""
    longest, began, last = 0, None, None
    for time_ms in sorted(times):
        if last is None or time_ms - last > 5000:
            began = time_ms
        longest, last = max(longest, time_ms - began), time_ms
    return longest / 1000
