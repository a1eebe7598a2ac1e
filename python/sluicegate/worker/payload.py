"""`Payload`: objects for all worker processes: inherited by a fork, otherwise pickled once and read by each."""

from __future__ import annotations

import mmap
import multiprocessing.forkserver
import os
import pickle
import resource
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import context, popen_forkserver, popen_spawn_posix, reduction
from typing import Any

import numpy as np

# Importing it registers how tensors go to other processes: in shared memory.
import torch.multiprocessing.reductions

from .missing_definition import explain_missing
from .unpicklable import explain


class Payload:
    """Objects for worker processes, by name. Pass it in the `args` of each `Process`, and `load` it in the worker.

    A forked worker already has the objects. For spawn and forkserver they are pickled during the first
    `Process.start()`, all in one pickle, so that a dataset and a method bound to it stay one object. The pickle lies in
    anonymous memory, which each worker opens. `start()` therefore writes little into a pipe whose other end is still
    importing, and workers boot in parallel.

    File descriptors in the objects (of tensors in shared memory, queues, connections) are handed to each worker again.
    Objects that only one process can take from a pickle are pickled for each worker: tensors on a GPU, and all tensors
    under torch's sharing strategy "file_system".

    Args:
        objects: the objects by name. The name begins the path in the error for an object that can't be pickled.

    Raises:
        PicklingError: (or what pickle raises) from `Process.start()`; the message gives the place in the objects.

    Examples:
        >>> payload = Payload({"dataset": [1, 2, 3], "collate_fn": sum})
        >>> needs = payload.load()  # in the worker
        >>> needs["collate_fn"](needs["dataset"])
        6
        >>> payload.close()
    """

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects: dict[str, Any] | None = dict(objects)
        self._descriptor: int | None = None
        self._images: list[_Image] = []

    @classmethod
    def _arrived(cls, carrier: Any) -> Payload:
        payload = cls({})
        payload._objects, payload._descriptor = None, carrier.detach()
        return payload

    def load(self) -> dict[str, Any]:
        """Return the objects by name, once: kept here, a dataset would outlive its worker's last batch.

        In a worker that was not forked this unpickles them; its errors are raised.
        """
        objects, self._objects = self._objects, None
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as pickled:
                    objects = pickle.loads(pickled)
            except AttributeError as error:
                explain_missing(error)
                raise
            finally:
                os.close(descriptor)
        if objects is None:
            raise RuntimeError("the objects for this worker were loaded before, or the first `load` raised an error")
        return objects

    def close(self) -> None:
        """Free the pickle and its descriptors. To be called once the last worker's `start()` has returned."""
        while self._images:
            self._images.pop().close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the pickle's descriptor if multiprocessing carries it, otherwise to the objects themselves.

        Contexts of other packages have their own picklers: joblib's sends the classes of `__main__`, and lambdas.
        """
        popen, objects = context.get_spawning_popen(), self._objects
        assert objects is not None
        if type(popen) not in (popen_spawn_posix.Popen, popen_forkserver.Popen):
            return Payload, (objects,)
        if not self._images or not self._images[-1].hand_over_again(popen):
            self._images.append(_Image(objects, popen))
        return Payload._arrived, (reduction.DupFd(self._images[-1].descriptor),)


class _Image:
    """One pickle of the objects, and the descriptors that it refers to, in order.

    While a process is being started, multiprocessing hands descriptors over by a number that is valid only in that
    child: under spawn the descriptor's own number, under forkserver its index among those handed over. The pickle
    contains these numbers, so it can be used for another child if handing over the same descriptors gives the same
    numbers.

    Args:
        objects: what to pickle.
        popen: the process that is being started.
    """

    # For `__del__`, in case the constructor runs out of memory.
    descriptor = -1

    def __init__(self, objects: dict[str, Any], popen: Any) -> None:
        self.popen = popen
        self.popen_class = type(popen)
        self.repeatable = True
        self.handed_over: list[tuple[int, Any]] = []
        self.descriptor = os.memfd_create("sluicegate-payload", os.MFD_CLOEXEC)
        context.set_spawning_popen(self)  # type: ignore[arg-type]
        try:
            with open(self.descriptor, "wb", closefd=False) as file:
                _ImagePickler(file, self).dump(objects)
        except Exception as error:
            explain(error, objects)
            self.close()
            raise
        finally:
            context.set_spawning_popen(popen)
            # It holds the process object, which holds the payload in its arguments.
            del self.popen

    def __getattr__(self, name: str) -> Any:
        """Forward attributes that reductions read from the starting process, which this object replaces meanwhile."""
        if name == "popen":
            raise AttributeError(name)
        return getattr(self.popen, name)

    def duplicate_for_child(self, descriptor: int) -> Any:
        # The owner may close its own descriptor before the last worker has started.
        kept = _duplicate(descriptor) if self.repeatable else None
        if kept is None:
            self.repeatable = False
            return self.popen.duplicate_for_child(descriptor)
        number = self.popen.duplicate_for_child(kept)
        self.handed_over.append((kept, number))
        return number

    def hand_over_again(self, popen: Any) -> bool:
        """Pass the same descriptors to a new child; return True if the pickle is valid there."""
        if not self.repeatable or type(popen) is not self.popen_class:
            return False
        return all(popen.duplicate_for_child(kept) == number for kept, number in self.handed_over)

    def close(self) -> None:
        while self.handed_over:
            os.close(self.handed_over.pop()[0])
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        """Close the open descriptors, because after a failed start no other code would."""
        if hasattr(self, "handed_over"):
            self.close()


def _duplicate(descriptor: int) -> int | None:
    """Return a duplicate; None if too many descriptors are open, so that the objects themselves can open the others."""
    try:
        kept = os.dup(descriptor)
    except OSError:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 4 * kept <= most or most == resource.RLIM_INFINITY:
        return kept
    os.close(kept)
    return None


class _ImagePickler(reduction.ForkingPickler):
    """Pickles as multiprocessing does, and detects objects that only one process can unpickle."""

    def __init__(self, file: Any, image: _Image) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.image = image
        for kind, reduce in list(self.dispatch_table.items()):
            if getattr(reduce, "__module__", None) == torch.multiprocessing.reductions.__name__:
                self.dispatch_table[kind] = partial(self._reduce_of_torch, reduce)

    def reducer_override(self, reduced: Any) -> Any:
        """Reduce arrays as in multiprocessing's older protocol, which makes them native and writable in the worker."""
        if type(reduced) is not np.ndarray or np.ndarray in self.dispatch_table:
            return NotImplemented
        is_kept = reduced.dtype.isnative and reduced.flags.writeable
        return NotImplemented if is_kept else reduced.__reduce__()

    def _reduce_of_torch(self, reduce: Callable[[Any], Any], reduced: Any) -> Any:
        # Typed storages warn when asked for their device; the untyped storage inside is reduced next.
        typed = isinstance(reduced, torch.storage.TypedStorage)
        device = "cpu" if typed else getattr(getattr(reduced, "device", None), "type", "cpu")
        # For each of these, torch counts how many processes will take it: one per pickling.
        if device not in ("cpu", "meta") or torch.multiprocessing.get_sharing_strategy() == "file_system":
            self.image.repeatable = False
        return reduce(reduced)


def preload() -> None:
    """Make the fork server import torch and this package once, for all workers that it will fork.

    Does nothing if the server is running already or if the user has set a list of modules. The server searches the
    interpreter's own path and `PYTHONPATH`: for a package found in another way the import fails there silently, and
    each worker imports it for itself.
    """
    # multiprocessing can set the list, but does not show its value, or if the server is running.
    server = multiprocessing.forkserver._forkserver
    running = getattr(server, "_forkserver_pid", None) is not None
    if not running and getattr(server, "_preload_modules", None) == ["__main__"]:
        multiprocessing.forkserver.set_forkserver_preload(["__main__", "sluicegate.worker.process_main"])
