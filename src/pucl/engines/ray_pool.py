"""Units of work on a Ray cluster: a pool of workers, one for every core or GPU, that outlives workers which die."""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pucl import __version__
from pucl.errors import Described, InputError, RunError, bad_argument, how_to_install, one_line

RETRIES = 3  # how often a unit is given to another worker when one dies with it
PATIENCE = 120.0  # seconds for the first worker to start
KNOCK = 5.0  # seconds for a cluster to take a connection, and to say its first word
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # of a client of gRPC: settings, none
SETTINGS = 4  # the kind of frame that the server begins with, too
NO_HOST = ("auto", "local")  # addresses: the cluster that runs on this machine, and a new one
NICENESS = "RAY_worker_niceness"  # of the workers, above that of who starts the cluster; 15 for Ray by itself

U = TypeVar("U")
R = TypeVar("R")


def need_ray(owner: str) -> Any:
    """The package, or one line that says how to get it."""
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError(f"the engine 'ray' needs ray: {how_to_install('ray')}", owner=owner) from None
    return ray


@contextmanager
def connected(owner: str, address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster; a connection that the program already has is used and kept."""
    ray = need_ray(owner)
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_answers(owner, address)
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        with _as_nice_as_the_caller():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = one_line(error)
        raise RunError(f"{owner}: cannot use the Ray cluster at {address!r}: {reason}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _as_nice_as_the_caller() -> Iterator[None]:
    """While a cluster is started: on a busy machine, Ray's 15 costs a tenth more CPU seconds for the same rows."""
    if NICENESS in os.environ:
        yield
        return
    os.environ[NICENESS] = "0"
    try:
        yield
    finally:
        del os.environ[NICENESS]


def run_on_ray(
    function: Callable[[U], R], units: Sequence[U], *, owner: str, address: str | None = None
) -> Generator[tuple[U, R | Exception], None, None]:
    """Every unit with what the function gives for it, or with the error that it raised, as they come.

    A unit whose worker dies is given to another one. Closing the stream, or an interrupt, ends all workers.

    Args:
        function: can be pickled; it is sent to the cluster once.
        units: can be pickled.
        owner: what the user called.
        address: of the cluster: ``"auto"`` for the one that runs on this machine, ``"host:port"``, ``"ray://host:port"``;
            that of ``RAY_ADDRESS`` or a new one on this machine when not given.
    """
    with connected(owner, address) as ray:
        shared, waiting = ray.put(function), deque(units)
        workers = _workers(ray, len(units))
        busy: dict[Any, tuple[Any, Any]] = {worker.version.remote(): (worker, None) for worker in workers}
        started = False
        try:
            while waiting or any(unit is not None for _, unit in busy.values()):  # others may never get their core
                done, _ = ray.wait(list(busy), timeout=None if started else PATIENCE)
                if not done:
                    raise RunError(f"{owner}: the cluster started no worker within {PATIENCE:g} s ({_capacity(ray)})")
                worker, unit = busy.pop(done[0])
                result = _result(ray, done[0])
                if unit is None:
                    _check_version(owner, result)
                    started = True
                else:
                    yield unit[0], result
                if waiting:
                    unit = (waiting.popleft(),)
                    busy[worker.run.remote(shared, *unit)] = worker, unit
        finally:
            for worker in workers:
                with suppress(Exception):  # it is gone already
                    ray.kill(worker)


def _check_answers(owner: str, address: str) -> None:
    """Knock before Ray does, which waits for minutes, and for ever where something else listens."""
    if address in NO_HOST:
        return
    allowed = "'auto', 'host:port' or 'ray://host:port'"
    try:
        parts = urlsplit(address if "://" in address else f"ray://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise bad_argument(owner, "address", allowed, address)
    try:
        reason = _knock(host, port)
    except TimeoutError:
        reason = f"no answer in {KNOCK:g} s"
    except OSError as error:
        reason = error.strerror or "no answer"
    if reason is not None:
        got = Described(f"{address!r}, which does not answer ({reason})")
        raise bad_argument(owner, "address", "that of a running Ray cluster", got)


def _knock(host: str, port: int) -> str | None:
    """Why what is at an address cannot be a Ray cluster, which begins with a frame of settings."""
    with socket.create_connection((host, port), KNOCK) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return None
        connection.sendall(HELLO)
        answer = b""
        while len(answer) < 4 and (more := connection.recv(4 - len(answer))):
            answer += more
    return None if answer[3:] == bytes([SETTINGS]) else "it is no Ray cluster"


def _workers(ray: Any, units: int) -> list[Any]:
    """As many actors as the cluster has GPUs, or cores where it has none; they restart when they die."""

    class Worker:  # inside a function, so that it is sent itself and not by its name in another version of pucl
        def version(self) -> str:
            from pucl import __version__

            return __version__

        def run(self, function: Any, unit: Any) -> Any:
            return function(unit)

    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    actor = ray.remote(num_cpus=1, num_gpus=min(gpus, 1), max_restarts=-1, max_task_retries=RETRIES)(Worker)
    return [actor.remote() for _ in range(min(units, gpus or max(1, int(resources.get("CPU", 1)))))]


def _result(ray: Any, reference: Any) -> Any:
    """What a worker gave, or the error that ended it."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return error.cause or RunError(" ".join(str(error).split())[-200:])
    except ray.exceptions.RayError as error:
        reason = one_line(error)
        return RunError(f"{1 + RETRIES} workers died with it, perhaps for lack of memory: {reason}")


def _check_version(owner: str, result: Any) -> None:
    """Refuse workers that have no pucl, or another one."""
    if result == __version__:
        return
    theirs = f"pucl {result}" if isinstance(result, str) else "no pucl"
    if isinstance(result, Exception) and not isinstance(result, ModuleNotFoundError):
        raise RunError(f"{owner}: the workers of the cluster cannot start: {result}")
    raise RunError(f"{owner}: the workers have {theirs}, and this is pucl {__version__}: install the same everywhere")


def _capacity(ray: Any) -> str:
    free = ray.available_resources()
    return ", ".join(
        f"{free.get(name, 0):g} of {count:g} {name}s free"
        for name, count in sorted(ray.cluster_resources().items())
        if name in ("CPU", "GPU")
    )
