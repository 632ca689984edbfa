"""Compilation of StableHLO text, and its caches: in memory by text, and on disk."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, final

from teucer._base import config
from teucer._core.provided import provided
from teucer._executables import disk_cache, guard, prefetch, stored
from teucer._executables.callbacks import owned
from teucer._xla import client as xla
from teucer._xla.dispatcher import forget_calls

if TYPE_CHECKING:
    from teucer._executables.ahead import AheadCode
    from teucer._executables.remote.sharing import Shared

Source: TypeAlias = Literal["memory", "disk", "compiled"]
"""Where machine code came from."""

AnyExecutable: TypeAlias = "Executable | AheadCode"
"""What is made of a module, for devices that are there or not."""

_Made = TypeVar("_Made")

# Executables in use elsewhere, and the ones used last, so that a function defined again in a loop
# compiles once.
_memory: dict[Module, weakref.ref[Executable]] = {}
_recent: dict[Executable, None] = {}
_RECENT = 64
_lock = threading.Lock()
# Those with machine code, in the order in which they got it.
_loaded: weakref.WeakKeyDictionary[Executable | OnDemand, None] = weakref.WeakKeyDictionary()


class Switches(NamedTuple):
    """A target's options for the compilation of one module: debug options, unless the user sets
    them, and switches of the backend."""

    overrides: Mapping[str, Any]
    extra: tuple[str, ...]


NO_SWITCHES = Switches({}, ())


class Module(NamedTuple):
    """The key of an executable: the text, where it runs, and how it is compiled."""

    text: str
    devices: tuple[Any, ...]
    num_replicas: int
    use_shardy: bool
    overrides: tuple[tuple[str, Any], ...]
    effort: xla.Effort
    switches: tuple[str, ...]


@final
class Executable:
    """A compiled module. Its machine code is evicted when the process can hold no more, and
    comes back at its next use."""

    __slots__ = (
        "entry",
        "size",
        "source",
        "_module",
        "_functions",
        "_callbacks",
        "_code",
        "_whole",
        "__weakref__",
    )

    def __init__(self, module: Module, callbacks: Sequence[Any] = ()) -> None:
        self._module, self._functions = module, callbacks
        self._callbacks = tuple(map(owned, callbacks))
        self._code: Any = None
        self._whole: Any = None
        self.source: Source = "compiled"
        self.entry: prefetch.Entry | None = None  # on disk
        self.size: int | None = None  # bytes on disk, where known

    def load(self) -> Any:
        """The executable of the runtime."""
        code = self._code  # read once: another thread may drop the code
        if code is None:
            client = self._module.devices[0].client
            provided.target(client.platform).make_room(_let_go)
            code = self._code = loaded_or_compiled(client, self)
            _note_loaded(self)
        return code

    def _from_disk(self, path: Path, client: object, devices: object, options: object) -> Any:
        """The machine code of the entry at `path`; None if there is none, or it does not load."""
        return self._from_entry(disk_cache.read(path), path, client, devices, options)

    def _from_entry(
        self, found: bytes | None, path: Path, client: object, devices: object, options: object
    ) -> Any:
        """The machine code of an entry; None without one. An entry that does not load is compiled
        anew, and replaced."""
        if found is not None:
            with contextlib.suppress(xla.XlaRuntimeError):
                code, self.size, self.source = (
                    stored.load(found, client, devices, options),
                    len(found),
                    "disk",
                )
                disk_cache.count(path, hit=True)
                return code
        return None

    def _compiled(
        self,
        path: Path,
        client: xla.Client,
        devices: object,
        options: object,
        shared: Shared | None = None,
    ) -> Any:
        """The machine code from the compiler, which is also written to disk, and to the cache of
        the team."""
        self.source, start = "compiled", time.perf_counter()
        code = _from_compiler(client, self._module, devices, options)
        least = config.persistent_cache_min_compile_time_secs.value
        # At JAX's default all are kept: to load the smallest program takes half a millisecond.
        if least == 1.0 or time.perf_counter() - start >= least:
            with contextlib.suppress(xla.XlaRuntimeError):  # some programs cannot be serialized
                content = stored.pack(code.serialize(), client.platform)
                disk_cache.write(path, content)
                self.size = len(content)
                if shared is not None:
                    shared.keep(content)
        return code

    def _load_with_callbacks(
        self, module: Module, client: Any, devices: object, options: Any
    ) -> Any:
        """As `loaded_or_compiled`. The functions are not kept on disk: they are given when the
        entry is loaded."""
        path = _path(module, options) if provided.target(client.platform).keeps_callbacks else None
        if path is None:
            return _from_compiler(client, module, devices, options, self._callbacks)
        content, self.source = disk_cache.read(path), "disk"
        if content is None:
            with _turn(path, module) as waited:
                content = disk_cache.read(path) if waited else None
                if content is None:
                    with _shared(path, module) as shared:
                        content = None if shared is None else shared.content
                        return self._compiled_with_callbacks(
                            path, content, client, devices, options, shared
                        )
        return self._compiled_with_callbacks(path, content, client, devices, options)

    def _compiled_with_callbacks(
        self,
        path: Path,
        content: bytes | None,
        client: Any,
        devices: Any,
        options: Any,
        shared: Shared | None = None,
    ) -> Any:
        module = self._module
        for found in (content, None):
            if found is None:
                self.source = "compiled"
                found = stored.pack(
                    _from_compiler(client, module, devices, options).serialize(), client.platform
                )
                disk_cache.write(path, found)
                if shared is not None:
                    shared.keep(found)
            self.size = len(found)
            with contextlib.suppress(
                xla.XlaRuntimeError
            ):  # an entry that does not load is compiled anew, and replaced
                code = stored.load(found, client, devices, options, self._callbacks)
                disk_cache.count(path, hit=self.source == "disk")
                return code
        return _from_compiler(client, module, devices, options, self._callbacks)

    def whole(self) -> Any:
        """The runtime's executable with all of its instructions, for tools that read them. An
        executable from disk is loaded without most of them."""
        if self._whole is None:
            module, code = self._module, self.load()
            self._whole = (
                code
                if self.source != "disk"
                else xla.deserialize(
                    module.devices[0].client,
                    self.data(),
                    xla.DeviceList(module.devices),
                    _options(module),
                )
            )
        return self._whole

    def data(self) -> bytes:
        """The executable as XLA's bytes: from disk, or compiled anew, since a loaded executable
        cannot be written again.

        Raises the runtime's error if it cannot be written.
        """
        module, options = self._module, _options(self._module)
        path = _path(module, options)
        found = None if path is None else disk_cache.read(path)
        if found is not None:
            return stored.whole(found)
        client, devices = module.devices[0].client, xla.DeviceList(module.devices)
        data: bytes = _from_compiler(client, module, devices, options, self._callbacks).serialize()
        return data

    def let_go(self) -> None:
        """Drop the machine code."""
        self._code = self._whole = None


def loaded_or_compiled(client: Any, executable: Executable) -> Any:
    """The machine code from disk, else from the compiler.

    Libraries may replace this function to forbid platforms (`teucer.compat`).
    """
    module = executable._module
    options, devices = _options(module), xla.DeviceList(module.devices)
    if executable._callbacks:
        return executable._load_with_callbacks(module, client, devices, options)
    path = _path(module, options)
    if path is None:
        executable.source = "compiled"
        return _from_compiler(client, module, devices, options)
    executable.entry = prefetch.Entry(
        path.name,
        options.SerializeAsString(),
        client.platform,
        tuple([d.id for d in module.devices]),
    )
    ahead = prefetch.take(path)
    if ahead is not None:
        executable.source, executable.size = "disk", ahead.size
        disk_cache.count(path, hit=True)
        return ahead.code
    code = executable._from_disk(path, client, devices, options)
    if code is not None:
        return code
    with _turn(path, module) as waited:
        code = executable._from_disk(path, client, devices, options) if waited else None
        if code is not None:
            return code
        with _shared(path, module) as shared:
            if shared is not None:
                code = executable._from_entry(shared.content, path, client, devices, options)
                if code is not None:
                    return code
            disk_cache.count(path, hit=False)
            return executable._compiled(path, client, devices, options, shared)


def _from_compiler(
    client: xla.Client,
    module: Module,
    devices: object,
    options: object,
    callbacks: Sequence[object] = (),
) -> Any:
    """The machine code from the compiler, which may cache its own finds for other programs."""
    if provided.target(client.platform).own_caches:
        from teucer._executables import xla_caches  # for compilers that have some

        kept = xla_caches.options(client, {name for name, _ in module.overrides})
        options = _options(module, kept) if kept else options
    from teucer._executables import slow  # for programs that compile

    with slow.watched(module.text):
        return xla.compile_text(client, module.text, devices, options, callbacks)


@final
class OnDemand:
    """The whole executable of a program that runs in pieces, compiled on demand.

    code: the executable from disk that runs in its place. The whole one is compiled only when it is
    read, or run after the code was evicted.
    """

    __slots__ = ("_made", "_code", "__weakref__")

    def __init__(self, make: Callable[[], AnyExecutable], code: Any = None) -> None:
        self._made, self._code = functools.cache(make), code
        if code is not None:
            provided.target(code.client.platform).make_room(_let_go)
            _note_loaded(self)

    def load(self) -> Any:
        """The executable of the runtime."""
        code = self._code  # read once, as above
        return self._made().load() if code is None else code

    def whole(self) -> Any:
        """The executable of the runtime with all of its instructions."""
        return self._made().whole()

    def data(self) -> bytes:
        """The executable as bytes, as XLA serializes it."""
        return self._made().data()

    def let_go(self) -> None:
        """Drop the machine code."""
        self._code = None


class LoadedCode(NamedTuple):
    """An executable that was read from bytes, in the place of one that was compiled here."""

    code: Any
    written: bytes

    def load(self) -> Any:
        """The executable of the runtime."""
        return self.code

    def whole(self) -> Any:
        """The same as `load()`: the executable was loaded with all of its instructions."""
        return self.code

    def data(self) -> bytes:
        """The executable as bytes, as XLA serialized it."""
        return self.written


def compile_module(
    text: str,
    devices: Sequence[object],
    *,
    num_replicas: int = 1,
    use_shardy: bool = False,
    overrides: Mapping[str, Any] | None = None,
    callbacks: Sequence[object] = (),
    switches: Switches = NO_SWITCHES,
) -> tuple[AnyExecutable, Source]:
    """The executable of a StableHLO module on the given devices, and where it was found.

    overrides: XLA debug options by name. callbacks: Python functions that the module calls; such a
    module is kept on disk only.
    switches: the target's options for this module.
    Raises the compiler's error if XLA refuses the module or an option.
    """
    if not guard.TRIED:
        from teucer._executables import untried  # with releases that are tried nothing is said

        untried.warn_once()
    if config.locations.value:
        text = _named_by_content(text)
    module = _module(text, devices, num_replicas, use_shardy, overrides or {}, switches)
    if xla.is_compile_only(module.devices[0].client):
        from teucer._executables import ahead  # for devices that are not there

        return ahead.compiled(module, _options(module), callbacks), "compiled"
    if callbacks:
        own = Executable(module, callbacks)
        own.load()
        return own, own.source
    source: Source = "memory"
    known = _memory.get(module)
    executable = None if known is None else known()
    if executable is None:
        executable = Executable(module)
        executable.load()
        source = executable.source
    with _lock:
        known = _memory.get(module)
        if known is None or known() is None:
            _memory[module] = weakref.ref(executable, functools.partial(_memory.pop, module))
        _recent.pop(executable, None)
        _recent[executable] = None
        if len(_recent) > _RECENT:
            del _recent[next(iter(_recent))]
    return executable, source


def _named_by_content(text: str) -> str:
    """The module under a name of its own, by which a profile tells programs of functions of one
    name apart.

    Programs from the disk cache have new numbers, so that those do not serve.
    """
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return re.sub(r"^module @[\w.$-]+", rf"\g<0>.{digest}", text, count=1, flags=re.MULTILINE)


def named_as_written(text: str) -> str:
    """The text of a compiled module that was compiled with locations, under the name that it has
    without them."""
    return re.sub(r"^(HloModule [\w.$-]+)\.[0-9a-f]{8}(?=[, ])", r"\1", text, count=1)


def fingerprint(
    text: str, devices: Sequence[object], overrides: Mapping[str, Any], about: Sequence[object]
) -> str:
    """A key of one program: its text, and everything that affects its compilation, Teucer's version
    included. about: further values that do, each with a `repr` that identifies it.
    """
    module = _module(text, devices, 1, False, overrides, NO_SWITCHES)
    import hashlib

    own = f"{_digest(module, _options(module))} {_own_files()} {tuple(about)}"
    return hashlib.sha256(own.encode()).hexdigest()


@functools.cache
def _own_files() -> str:
    """Which version of Teucer this is, changes to its files included: a digest of their names,
    sizes and times."""
    import hashlib

    digest = hashlib.sha256()
    for folder, _, names in sorted(os.walk(Path(__file__).parent.parent)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):  # an editor may just have removed the file
                    status = os.stat(path)
                    digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def compile_together(compilations: Sequence[Callable[[], _Made]]) -> list[_Made]:
    """Call functions at once, in threads with this thread's options; their results in order."""
    if len(compilations) == 1:
        return [compilations[0]()]
    from concurrent.futures import ThreadPoolExecutor  # for programs in pieces only

    with ThreadPoolExecutor(
        os.cpu_count(), initializer=config.adopt, initargs=(config.of_this_thread(),)
    ) as pool:
        return [
            future.result() for future in [pool.submit(compilation) for compilation in compilations]
        ]


def loaded() -> list[Executable | OnDemand]:
    """The executables that have machine code."""
    with _lock:
        return list(_loaded)


def forget(executable: Executable) -> None:
    """Remove an executable from those kept because they were asked for lately. It then dies with
    its last user."""
    with _lock:
        _recent.pop(executable, None)


def clear_memory() -> None:
    """Forget the executables that are kept in memory."""
    _memory.clear()
    with _lock:
        _recent.clear()


def _let_go() -> bool:
    """Drop the machine code of the half of all executables that was loaded first. Returns whether
    any was loaded."""
    with _lock:
        oldest = list(_loaded)
        for executable in oldest[: (len(oldest) + 1) // 2]:
            _loaded.pop(executable, None)
            executable.let_go()
    forget_calls()  # the C++ dispatchers hold machine code too
    return bool(oldest)


def _note_loaded(executable: Executable | OnDemand) -> None:
    with _lock:
        _loaded.pop(executable, None)
        _loaded[executable] = None


def _module(
    text: str,
    devices: Sequence[Any],
    num_replicas: int,
    use_shardy: bool,
    overrides: Mapping[str, Any],
    switches: Switches,
) -> Module:
    effort = xla.Effort(
        config.optimization_level.value,
        config.memory_fitting_level.value,
        config.exec_time_optimization_effort.value,
        config.memory_fitting_effort.value,
    )
    chosen = dict(overrides)
    if config.disable_most_optimizations.value:
        chosen = {**xla.little_effort(devices[0].platform), **chosen}
    chosen = {**switches.overrides, **chosen}
    return Module(
        text,
        tuple(devices),
        num_replicas,
        use_shardy,
        tuple(sorted(chosen.items())),
        effort,
        switches.extra,
    )


def _options(module: Module, kept: Mapping[str, object] = {}) -> Any:
    return xla.compile_options(
        [d.id for d in module.devices],
        num_replicas=module.num_replicas,
        use_shardy=module.use_shardy,
        overrides={**dict(module.overrides), **kept},
        effort=module.effort,
        switches=module.switches,
    )


def _turn(path: Path, module: Module) -> contextlib.AbstractContextManager[bool]:
    """In the `with` block, this process compiles an entry; gives whether it has waited for another
    one."""
    if _compiles_alone(module):
        from teucer._executables import turns  # for programs that compile

        return turns.turn(path)
    return contextlib.nullcontext(False)


def _shared(path: Path, module: Module) -> contextlib.AbstractContextManager[Shared | None]:
    """In the `with` block, this process loads or compiles an entry that the folder lacks. Gives the
    exchange with the cache of the team, None without one."""
    if disk_cache.remote_address() is None or not _compiles_alone(module):
        return contextlib.nullcontext()
    from teucer._executables.remote import sharing  # for teams with a cache

    return sharing.shared(path, several=len({d.process_index for d in module.devices}) > 1)


def _compiles_alone(module: Module) -> bool:
    """Whether this process compiles a module without the others that run it."""
    client = module.devices[0].client
    alone = all(d.process_index == client.process_index() for d in module.devices)
    return alone or provided.target(client.platform).compiles_alone


def _path(module: Module, options: object) -> Path | None:
    """The path of the module's executable on disk; None if it is not kept there."""
    folder = disk_cache.cache_dir()
    text, (one, other) = module.text, xla.OF_THIS_PROCESS
    return (
        None
        if folder is None or one in text or other in text
        else folder / _file_name(module, options)
    )


def _file_name(module: Module, options: object) -> str:
    """The name of the entry in the cache."""
    return _digest(module, options) + disk_cache.SUFFIX


def _digest(module: Module, options: Any) -> str:
    import hashlib  # here and above, as in `disk_cache`

    digest = hashlib.sha256()
    first = module.devices[0]
    try:
        flags = os.environ["XLA_FLAGS"]  # `get` would be a call deeper
    except KeyError:
        flags = ""
    for part in (
        xla.jaxlib_version,
        first.platform,
        first.device_kind,
        first.client.platform_version,
        provided.target(first.platform).machine(),
        flags,
        module.text,
    ):
        digest.update(part.encode())
        digest.update(b"\0")
    digest.update(options.SerializeAsString())
    return digest.hexdigest()
