"""Numbers as people read them."""

from __future__ import annotations

NONE = "\u2013"


def count(number: int) -> str:
    """`12,345`."""
    return f"{number:,}"


def counted(number: int, name: str, plural: str = "") -> str:
    """`1 letter`, `2 letters`; `1 bus`, `2 buses` with the plural given."""
    return f"{number:,} {name if number == 1 else plural or name + 's'}"


def rate(number: float | None) -> str:
    """`3.4`, `120`; a dash where it is not known."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def share(number: float | None) -> str:
    """`87 %`."""
    return NONE if number is None else f"{number:.0%}".replace("%", " %")


def span(milliseconds: float | None) -> str:
    """How long: `4.2 ms`, `340 ms`, `2.3 s`, `12 min`, `3.5 h`, `4.0 days`; a dash for nothing."""
    if milliseconds is None:
        return NONE
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 or milliseconds == 0 else f"{milliseconds:.1f} ms"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def ago(milliseconds: float | None) -> str:
    """`2.3 s ago`."""
    return NONE if milliseconds is None else f"{span(max(0.0, milliseconds))} ago"


def plain(text: str, most: int = 300) -> str:
    """A text that somebody else wrote, in one line, without what steers a terminal or turns the reading direction."""
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "\ufffd" for c in line[:most])
    return shown + ("…" if len(line) > most else "")
