"""`explain_missing`: says why a worker does not find a class or function of the main module."""

from __future__ import annotations

import re

# Pickle's message, with the module's name in its `repr`.
_MISSING = re.compile(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>__main__|__mp_main__)'")


def explain_missing(error: AttributeError) -> None:
    """Add to the message of `error`, which unpickling raised in a worker, why the name is missing, and the remedy.

    Other errors are left unchanged.
    """
    found = _MISSING.search(str(error))
    if found is None:
        return
    name = found["name"]
    # multiprocessing imports the main module's file, if there is one, under this name.
    if found["module"] == "__mp_main__":
        why = (
            f"the main module defines {name!r} only where it runs as a script, so a worker that imports it does not "
            'find it: define it outside of `if __name__ == "__main__":`'
        )
    else:
        why = (
            f"{name!r} was defined in a notebook, an interactive session, or a __main__.py, which a worker that is not "
            "forked can't import: move it to a module (a .py file) and import it from there"
        )
    error.args = (f"{error} ({why}, or use multiprocessing_context='fork')",)
