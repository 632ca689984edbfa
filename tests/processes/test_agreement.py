"""What processes agree on before they call a program.

Several processes within one, each with its own state, over a service that is a dictionary.
"""

import concurrent.futures
import re
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from teucer import numpy as jnp
from teucer._base import config
from teucer._devices import processes
from teucer._devices.links import Links
from teucer._devices.processes import ProcessFailure
from teucer._devices.rings import SLOTS, Ring
from teucer._devices.watch import Watch
from teucer._executables import agreement
from teucer._xla import dispatcher
from teucer._xla.client import XlaRuntimeError

RESULT = jnp.zeros(2)
TEXT = "module\n  same\n  first\nend"
COMMUNICATES = "  %y = f32[] all-reduce(%x), channel_id=1"


class Service:
    """What jaxlib's client offers, without waiting."""

    def __init__(self):
        self.values = {}

    def key_value_set(self, key, value, allow_overwrite=False):
        if key in self.values and not allow_overwrite:
            raise XlaRuntimeError("ALREADY_EXISTS")
        self.values[key] = value

    key_value_set_bytes = key_value_set

    def key_value_try_get(self, key):
        if key not in self.values:
            raise XlaRuntimeError("NOT_FOUND")
        return self.values[key]

    def blocking_key_value_get(self, key, milliseconds):
        if key not in self.values:
            raise XlaRuntimeError("DEADLINE_EXCEEDED")
        return self.values[key]

    blocking_key_value_get_bytes = blocking_key_value_get

    def programs(self):
        return [key for key in self.values if key.startswith("teucer/programs/")]


class Processes:
    """Three processes; `devices` are those of some of them."""

    def __init__(self, monkeypatch):
        self.service, self.patch = Service(), monkeypatch
        monkeypatch.setattr(dispatcher, "around", None)  # what the first program sets goes again
        self.watches = [Watch(self.service, i, 3, "nowhere", 5, lambda: None) for i in range(3)]
        for watch in self.watches:
            watch._concluded.set()
            watch.links.open()

    def become(self, i):
        for name, value in (
            ("process_id", i),
            ("client", self.service),
            ("watch", self.watches[i]),
        ):
            self.patch.setattr(processes.state, name, value)

    def compile(self, i, text=TEXT, name="f", group=(0, 1), optimized=COMMUNICATES):
        self.become(i)
        module = SimpleNamespace(to_string=lambda: optimized)
        executable = SimpleNamespace(whole=lambda: SimpleNamespace(hlo_modules=lambda: [module]))
        devices = [SimpleNamespace(process_index=j) for j in group]
        return agreement.agreement_of(devices, name, text, executable)

    def call(self, i, agreed, results=()):
        self.become(i)
        return agreed.run(lambda: list(results))


@pytest.fixture
def three(monkeypatch):
    with config.collective_timeout(0):
        found = Processes(monkeypatch)
        yield found
        for watch in found.watches:
            watch.links.close()


def test_a_process_alone():
    """Libraries read its state."""
    state = processes.State()
    assert (state.process_id, state.num_processes, state.shutdown_timeout) == (0, 1, 300)
    assert state.client is state.service is state.coordinator_address is None
    assert processes.explained(error := ValueError("mine")) is error


def test_one_process_has_nothing_to_agree_on(three):
    assert three.compile(0, group=(0,)) is three.compile(1, group=(1, 1)) is None
    assert three.compile(0, group=()) is None and not three.service.programs()
    assert three.compile(2, group=(0, 1)) is None  # it has no part
    three.patch.setattr(processes.state, "client", None)
    assert agreement.agreement_of([SimpleNamespace(process_index=0)], "f", TEXT, None) is None


@pytest.mark.parametrize(
    "line", ["%y = f32[4] multiply(%x, %x)", "%all-reduce-like = f32[] log(%x)"]
)
def test_a_program_without_communication_is_not_agreed_on(three, line):
    assert three.compile(0, optimized=f"  {line}\n") is None


@pytest.mark.parametrize(
    "name", ["all-gather", "all-reduce-start", "collective-permute", "reduce-scatter", "all-to-all"]
)
def test_collectives_are_communication(three, name):
    assert (
        three.compile(0, optimized=f"  ROOT %y = f32[4]{{0}} {name}(%x), channel_id=3") is not None
    )


def test_groups_of_processes_call_in_turn(three):
    """The first of them says what it calls, and the others find that, whichever groups there
    are."""
    for group in ((0, 1), (1, 2), (0, 1, 2), (0, 1), (2, 1)):
        for text in (TEXT, TEXT + "\n"):
            agreed = {i: three.compile(i, text, "f", group) for i in sorted(group)}
            assert len({a.fingerprint for a in agreed.values()}) == 1
            for i, own in agreed.items():
                assert own.group == tuple(sorted(group)) and own.name == "f"
                assert three.call(i, own, [RESULT])[0] is RESULT


def test_what_differs_is_said(three):
    """By the process that is not the first, which is at fault: both names and lines, and the first
    lines of both programs that are not alike."""
    agreed = three.compile(0), three.compile(1)
    for i in (0, 1):
        three.call(i, agreed[i])
    three.call(0, three.compile(0, name="g"))
    other = three.compile(1, TEXT.replace("first", "second"))
    with pytest.raises(ProcessFailure) as caught:
        three.call(1, other)
    assert caught.value.processes == (1,)
    here = r"called at .*test_agreement\.py:\d+.*\n"
    assert re.match(
        "process 1 and process 0 run different programs as their call number 1 over processes "
        rf"0,1\.\n    process 1: f, {here}    process 0: g, {here[:-2]}\n"
        r"      - first\n      \+ second\n  All processes must make the same calls",
        str(caught.value),
    ), caught.value


@pytest.mark.parametrize("missing", ["too long", "lost"])
def test_a_program_that_is_not_shown_differs_all_the_same(three, missing):
    if missing == "too long":
        three.patch.setattr(agreement, "_LONGEST", 1)
    three.call(0, three.compile(0))
    if missing == "lost":
        (key,) = three.service.programs()
        del three.service.values[key]
    with pytest.raises(ProcessFailure) as caught:
        three.call(1, three.compile(1, TEXT + "more"))
    assert "different programs" in str(caught.value) and "\n      - " not in str(caught.value)


def test_a_longer_program_differs_in_its_last_line(three):
    three.call(0, three.compile(0))
    with pytest.raises(ProcessFailure, match=r"      - \n      \+ more\n"):
        three.call(1, three.compile(1, TEXT + "\nmore"))


def test_a_process_that_does_not_come(three):
    with pytest.raises(ProcessFailure, match=r"process 0 did not come to f, called"):
        three.call(1, three.compile(1))


def test_calls_in_another_order(three):
    f, g = [[three.compile(i, text) for i in (0, 1)] for text in (TEXT, TEXT + "g")]
    three.call(0, f[0])
    with pytest.raises(ProcessFailure, match="run different programs as their call number 0"):
        three.call(1, g[1])


def test_programs_are_not_compared_where_that_is_switched_off(three):
    with config.check_programs(False):
        agreed = three.compile(0), three.compile(1, "another")
        assert agreed[0].fingerprint != agreed[1].fingerprint
        for i in (0, 1):
            three.call(i, agreed[i])
    assert not three.service.programs()
    # They are counted, so that the next ones are compared once it is on again.
    assert three.compile(0).group == three.compile(1).group == (0, 1)


def test_errors_of_programs_name_the_process_at_fault(three):
    agreed = three.compile(0)
    watch = three.watches[0]

    def fails(message):
        def call():
            raise XlaRuntimeError(message)

        return call

    with pytest.raises(XlaRuntimeError, match="out of memory") as raised:
        agreed.run(fails("out of memory"))
    assert raised.value.__cause__ is None
    assert watch._forget_ended() is None  # no call is in flight
    watch.verdict = ProcessFailure("process 2 has failed", (2,))
    with pytest.raises(ProcessFailure, match="process 2 has failed") as caught:
        agreed.run(fails("Gloo: connection closed"))
    assert isinstance(caught.value.__cause__, XlaRuntimeError) or caught.value is watch.verdict
    assert processes.explained(XlaRuntimeError("UNAVAILABLE")) is watch.verdict
    three.patch.setattr(processes.state, "watch", None)
    with pytest.raises(RuntimeError, match=r"f: this program runs over processes \(0, 1\), and "):
        agreed.run(list)


def said(service, number):
    def nothing_comes():
        raise TimeoutError

    found = Links(number, "localhost:1", lambda key, _: service[key], service.__setitem__)
    found.open()
    return found, nothing_comes


def test_many_processes_pass_on_what_the_first_says():
    """Along a tree, in the order of the calls, and for each group apart."""
    service, group = {}, tuple(range(40))
    every = [said(service, number) for number in group]
    first = every[0][0]
    for number, program in enumerate((1, 2, 1)):
        first.say(group, program, number, 0, program, lambda: "f\nline 1")
        first.say(group[::3], 3, number, 0, "there", lambda: "g\nline 2")
    for number, program in enumerate((1, 2, 1)):
        for own, turn in every[1:]:
            heard = own.hear(group, number, turn)
            assert heard[:2] == (program, number) and own.describe(group, heard) == "f\nline 1"
        for own, turn in every[3::3]:
            heard = own.hear(group[::3], number, turn)
            assert heard[:2] == (3, number)
            assert own.describe(group[::3], heard) == "g\nline 2"
    assert max(len(own._to) for own, _ in every) <= 32
    with pytest.raises(TimeoutError):
        every[1][0].hear(group, 3, every[1][1])
    for own, _ in every:
        own.close()


def test_what_is_not_compared_is_passed_over():
    service = {}
    (first, _), (second, turn) = (said(service, number) for number in (0, 1))
    first.say((0, 1), 11, 0, 0, 0, lambda: "f\nline")
    first.say((0, 1), 12, 1, 0, 0, lambda: "f\nline")
    assert second.hear((0, 1), 1, turn).fingerprint == 12
    first.say((0, 1), 12, 3, 0, 0, lambda: "f\nline")
    assert second.hear((0, 1), 2, turn) is None
    assert second.hear((0, 1), 3, turn).fingerprint == 12
    first.close(), second.close()


def two():
    service = {}
    (first, _), (second, turn) = (said(service, number) for number in (0, 1))
    return first, second, turn


def test_processes_of_one_machine_share_memory():
    """The first sends its first call; the others read those that follow."""
    first, second, turn = two()
    for number in range(5):
        first.say((0, 1), 7 + number, number, 0, f"place {number}", lambda: f"f\nline {number}")
        if number:  # nothing comes over the network
            first._send = None
        heard = second.hear((0, 1), number, turn)
        assert heard[:2] == (7 + number, number)
        assert second.describe((0, 1), heard) == f"f\nline {number}"
    first.close(), second.close()


def test_a_quick_look_finds_this_very_call():
    """Anything else is left to `hear`, which says what differs."""
    first, second, turn = two()
    first.say((0, 1), 7, 0, 5, 0, lambda: "f\nline")
    second.hear((0, 1), 0, turn)  # it has been sent, with where the memory is
    first.say((0, 1), 7, 1, 5, 0, lambda: "f\nline")
    for fingerprint, number, thread in ((8, 1, 5), (7, 1, 6), (7, 2, 5)):
        assert not second.lies_there((0, 1), fingerprint, number, thread)
    assert not second.lies_there((1, 2), 7, 1, 5)
    assert second.hear((0, 1), 1, turn)[:2] == (7, 1)  # it is there still
    first.say((0, 1), 7, 2, 5, 0, lambda: "f\nline")
    assert second.lies_there((0, 1), 7, 2, 5)
    first.close(), second.close()


@pytest.mark.parametrize("number, most", [(0, 8), (1, 7)])
def test_a_call_that_all_make_costs_few_steps(three, number, most):
    """Functions of Python that run for it; each costs some tenths of a microsecond."""
    agreed = [three.compile(i) for i in (0, 1)]
    for _ in range(4):  # what is said once is said in the first
        for i in (0, 1):
            three.become(i)
            steps, before = [], sys.getprofile()
            if i == number:
                sys.setprofile(
                    lambda frame, event, _, to=steps: event == "call" and to.append(frame.f_code)
                )
            begun = agreed[i].begin()
            sys.setprofile(before)
            begun.results = [RESULT]
            if i == number:
                made = " ".join(code.co_name for code in steps)
    assert 1 < made.count(" ") + 1 <= most, made


@pytest.mark.parametrize("found", [True, False], ids=["one machine", "two machines"])
def test_the_first_process_may_be_far_ahead(found, monkeypatch):
    """Nothing is lost when it has written over what others have not read."""
    if not found:
        monkeypatch.setattr(Ring, "find", lambda *_: None)
    first, second, turn = two()
    first.say((0, 1), 5, 0, 0, 0, lambda: "f\nline")
    assert second.hear((0, 1), 0, turn).fingerprint == 5
    for number in range(1, 2 * SLOTS + 50):
        first.say((0, 1), number, number, 0, 0, lambda: "f\nline")
    for number in range(1, 2 * SLOTS + 50):
        assert second.hear((0, 1), number, turn)[:2] == (number, number)
    first.close(), second.close()


def test_a_process_waits_for_the_first():
    """It looks into the memory for some time, then it is sent what it waits for."""
    first, second, turn = two()
    heard = []
    listener = threading.Thread(
        target=lambda: heard.extend(second.hear((0, 1), number, turn) for number in range(3))
    )
    listener.start()
    for number in range(3):
        first.say((0, 1), 7, number, 0, 0, lambda: "f\nline")
        while len(heard) <= number:
            pass
        ring = second._conversations[0, 1].ring
        while ring is not None and number < 2 and ring.reads(0):
            pass  # until it waits for the next
    listener.join()
    assert [h.number for h in heard] == [0, 1, 2]
    first.close(), second.close()


def test_memory_of_another_machine_is_not_read():
    ring = Ring.create(1)
    process, memory, texts, token = ring.where.split(" ")
    assert Ring.find(ring.where, 1) is not None
    assert Ring.find(f"{process} {memory} {texts} {int(token) - 1}", 1) is None
    assert Ring.find(f"{process} {texts} {memory} {token}", 1) is None
    assert Ring.find(f"{process} 9999 9999 {token}", 1) is None
    assert Ring.create(40) is None


def test_two_threads_do_not_call_at_once(three):
    """The other processes need not make their calls in the same order."""
    agreed = three.compile(0)
    caught = []

    def second():
        with pytest.raises(RuntimeError) as error:
            agreed.begin()
        caught.append(str(error.value))

    def call():
        thread = threading.Thread(target=second, name="second")
        thread.start()
        thread.join()
        return []

    three.patch.setattr(three.watches[0], "_conclude", lambda *verdict: caught.append(verdict))
    agreed.run(call)
    (text, at_fault), message = caught  # which ends the process, though only a thread ends here
    assert text == message and at_fault == (0,)
    here = r"f, called at .*test_agreement\.py:\d+"
    assert re.match(
        rf"f: two threads of this process call programs over processes 0,1 at once, .*\n"
        rf" +thread 'MainThread': {here}.*\n +thread 'second': {here}.*\n  Let one",
        message,
    ), message
    assert agreed.run(list) == []  # the next call is one of many


def test_a_call_is_made_in_the_same_thread_of_each_process(three):
    """Else the values of two threads meet: both run the same program."""
    agreed = three.compile(0), three.compile(1)

    def second_thread(i):
        caught = []

        def call():
            try:
                three.call(i, agreed[i])
            except ProcessFailure as err:
                caught.append(err)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return caught

    assert not second_thread(0) and not second_thread(1)
    three.call(0, agreed[0])
    (error,) = second_thread(1)
    assert error.processes == (1,) and re.match(
        r"process 1 and process 0 make their call number 1 over processes 0,1 in different "
        r"threads.\n    process 1, thread 'Thread-.*': f, called at .*\n    process 0: f, called",
        str(error),
    )
    assert three.watches[1].verdict is not None  # it ends, though only a thread ends here
    three.watches[1].verdict = None
    for i in range(2):  # the workers of a pool are alike
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            go_on = threading.Event()
            for _ in range(i):
                pool.submit(go_on.wait, 5)
            pool.submit(three.call, i, agreed[i]).result()
            go_on.set()


def test_strangers_are_not_heard():
    service = {}
    (first, _), (second, turn) = (said(service, number) for number in (0, 1))
    with socket.create_connection(("127.0.0.1", int(service["links/1"].split()[1]))) as stranger:
        stranger.sendall(bytes(100))
        first.say((0, 1), 13, 0, 0, 0, lambda: "f\nline")
        assert second.hear((0, 1), 0, turn).fingerprint == 13
    first.close(), second.close()
