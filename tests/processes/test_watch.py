"""The watch over calls of programs that run over several processes."""

from types import SimpleNamespace

from teucer._base import config
from teucer._devices import calls
from teucer._devices.watch import Watch


class Result:
    """An array that is ready once somebody waits for it."""

    ready = False

    def block_until_ready(self):
        self.ready = True


def test_few_calls_are_in_flight(monkeypatch):
    monkeypatch.setattr(calls, "is_deleted", lambda x: False)
    monkeypatch.setattr(calls, "is_ready", lambda x: x.ready)
    watch, results = Watch(None, 0, 2, "nowhere", 5, lambda: None), []
    program = SimpleNamespace(group=(0, 1), name="f", fingerprint=7, limited=True)
    with config.check_programs(False):
        for _ in range(50):
            call = watch.begin(program)
            assert sum(not r.ready for r in results) < 17
            results.append(Result())
            call.results = results[-1:]
    assert not results[-1].ready
