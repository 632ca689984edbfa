"""The watch over calls of programs that run over several processes."""

from teucer._base import config
from teucer._devices.watch import Watch


class Result:
    """An array that is ready once somebody waits for it."""

    ready = False

    def is_deleted(self):
        return False

    def is_ready(self):
        return self.ready

    def block_until_ready(self):
        self.ready = True


def test_few_calls_are_in_flight():
    watch, results = Watch(None, 0, 2, "nowhere", 5, lambda: None), []
    with config.check_programs(False):
        for _ in range(50):
            call = watch.begin((0, 1), "f", "its hash", str)
            assert sum(not r.ready for r in results) < 17
            results.append(Result())
            call.results = results[-1:]
    assert not results[-1].ready
