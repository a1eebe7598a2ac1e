"""Says why a worker does not find a class or function of the main module."""

from __future__ import annotations

import re

# As pickle words it, with the module's name in its `repr`.
_MISSING = re.compile(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>__main__|__mp_main__)'")


def explain_missing(error: AttributeError) -> None:
    """Adds to the text of `error`, which unpickling raised in a worker, why the name is missing, and what to do.

    Leaves other errors as they are.
    """
    found = _MISSING.search(str(error))
    if found is None:
        return
    name = found["name"]
    # multiprocessing imports the main module's file under this name, if there is one.
    if found["module"] == "__mp_main__":
        why = (
            f"the main module defines {name!r} only where it runs as a script, so a worker that imports it does not "
            'find it: define it outside of `if __name__ == "__main__":`'
        )
    else:
        why = (
            f"{name!r} was defined in a notebook or an interactive session, which a worker that is not forked can't "
            "import: move it to a module (a .py file) and import it from there"
        )
    error.args = (f"{error} ({why}, or use multiprocessing_context='fork')",)
