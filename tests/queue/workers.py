"""What workers do in the world around a queue: claim, deliver, renew, lose and give up batches."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.queue.steps import letter, result
from tests.queue.world import TTL_S, World

from busload_shared.element import Element
from busload_shared.replies import NO_CHOICE, Choice, Claim, Delivery, NotYet


class Workers(World):
    """Workers that are slow, repeat themselves, die, and come back late."""

    def a_batch(self, data: st.DataObject) -> str:
        """Some batch that a worker holds or believes to hold, the former three times as likely."""
        held = sorted(self.places.leases)
        return str(data.draw(st.sampled_from([*sorted(self.claims), *held, *held])))

    @rule(size=st.integers(1, 3), lease=st.sampled_from([20, 200]), drain=st.booleans())
    def claim_few(self, size: int, lease: int, drain: bool) -> None:
        self.claim(size, lease, drain)

    @rule(size=st.integers(5, 8), lease=st.sampled_from([20, 200]))
    def claim_many(self, size: int, lease: int) -> None:
        self.claim(size, lease, True)

    @precondition(lambda self: self.places.waiting)
    @rule(data=st.data(), size=st.integers(1, 4), between=st.integers(0, 2))
    def claim_chosen(self, data: st.DataObject, size: int, between: int) -> None:
        """Some of those seen at a look; another worker may claim between the look and the claim."""
        seen = [(place, raw) for place, raw in enumerate(self.run(self.queue.peek(8)), 1) if raw.startswith(b"@")]
        chosen = data.draw(st.lists(st.sampled_from(seen), max_size=4, unique=True)) if seen else []
        heads = [(place, raw[: -len(Element.parse(raw, latest_ms=1e15).payload) or None]) for place, raw in chosen]
        if between:
            self.claim(between, 200, True)
            self.look()
        self.claim(size, 200, True, Choice(tuple(sorted(heads)), heavy=bool(heads)))

    def claim(self, size: int, lease: int, drain: bool, choice: Choice = NO_CHOICE) -> None:
        self.count += 1
        got = self.ask(f"b{self.count}", size=size, lease=lease, drain=drain, choice=choice)
        if isinstance(got, NotYet):
            return
        self.claims[got.batch] = got
        assert sum(not seat.cancelled for seat in got.seats) <= size, "a batch is never above its cap"
        if got.trigger == "retry":
            assert len(got.seats) <= size, "not with suspects either"
        for seat in got.seats:
            element = seat.element
            assert element.id not in self.results, "what is answered does not board"
            assert seat.cancelled == (element.id in self.marked), "a cancel is seen at the claim"
            assert self.repaired or (element.attempts > 0) == (got.trigger == "retry"), "suspects ride apart"

    def ask(
        self, batch: str, *, size: int, lease: float = 100, drain: bool = False, choice: Choice = NO_CHOICE
    ) -> Claim | NotYet:
        return self.run(
            self.queue.claim(
                batch, worker=batch, max_batch_size=size, max_wait_ms=50, lease_ms=lease, drain=drain, choice=choice
            )
        )

    @precondition(lambda self: self.places.leases)
    @rule(data=st.data(), size=st.integers(1, 5))
    def claim_again(self, data: st.DataObject, size: int) -> None:
        self.asking_again_gives_the_same(data.draw(st.sampled_from(sorted(self.places.leases))), size)

    def asking_again_gives_the_same(self, batch: str, size: int) -> None:
        again = self.ask(batch, size=size)
        assert isinstance(again, Claim)
        assert [seat.element for seat in again.seats] == self.places.rows(batch)
        held = {seat.position: seat.element for seat in self.claims[batch].seats}
        assert all(held[seat.position] == seat.element for seat in again.seats)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), bury=st.booleans())
    def deliver(self, data: st.DataObject, bury: bool) -> None:
        claim = self.claims[self.a_batch(data)]
        seats = data.draw(st.lists(st.sampled_from(claim.seats), min_size=1, max_size=5, unique=True))
        rows = []
        for seat in seats:
            self.count += 1
            name, payload = seat.element.id, seat.element.payload
            dead = letter(name or None, payload).model_dump_json().encode() if bury or not name else b""
            record = result(name, worker=str(self.count)) if name else b""
            rows.append(Delivery(seat.position, name, "succeeded", "", record, dead))
        self.send(claim.batch, rows)
        if claim.batch in self.look().leases:
            self.asking_again_gives_the_same(claim.batch, 1)

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        batch, index = data.draw(st.sampled_from(sorted(self.written)))
        self.send(batch, [self.written[batch, index]])

    def send(self, batch: str, rows: list[Delivery]) -> None:
        said = self.run(self.queue.deliver(batch, rows, ttl_s=TTL_S))
        for row, written in zip(rows, said, strict=True):
            mine = f"{batch}:{row.position}" in self.places.flights
            fresh = mine and row.id not in self.results
            same = bool(row.id) and self.results.get(row.id) == row.result
            assert written == (fresh or same), "who holds the row writes, once; nobody else does"
            if fresh:
                self.answered(batch, row)

    def answered(self, batch: str, row: Delivery) -> None:
        self.written[batch, row.position] = row
        if row.id:
            self.results[row.id] = row.result
            self.forgotten.discard(row.id)
        else:
            self.buried.add(self.places.flights[f"{batch}:{row.position}"].payload)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        batches = data.draw(st.lists(st.sampled_from(sorted(self.claims)), max_size=3, unique=True))
        said = self.run(self.queue.renew(batches, lease_ms=100))
        assert said == [batch in self.places.leases for batch in batches]

    @rule(at_most=st.integers(1, 4), late=st.booleans())
    def reclaim(self, at_most: int, late: bool) -> None:
        if late and self.places.leases:
            self.queue.now_ms = max(self.queue.now_ms, min(self.places.leases.values()))
        due = sorted((until, name) for name, until in self.places.leases.items() if until <= self.queue.now_ms)
        taken = self.run(self.queue.reclaim(at_most=at_most))
        assert [each.batch for each in taken] == [name for _, name in due[:at_most]]
        for each in taken:
            assert each.rows == self.died(each.batch)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), way=st.sampled_from(["release", "release", "hand back"]))
    def give_up(self, data: st.DataObject, way: str) -> None:
        batch = self.a_batch(data)
        if way == "release":
            assert self.run(self.queue.release(batch)) == self.died(batch)
        else:
            assert self.run(self.queue.hand_back(batch)) == len(self.places.rows(batch))

    def died(self, batch: str) -> int:
        rows = self.places.rows(batch)
        alone = bool(rows) and self.places.size(batch) == 1
        assert not alone or len(self.claims[batch].seats) == 1, "who rode with others did not die alone"
        for element in rows:
            self.deaths[element.payload] += 1
            self.lone_deaths[element.payload] += alone
        return len(rows)
