"""Makes the example importable: it lies beside the source or inside the package, and needs the extra `demo`.

Only this and `surroundings` know the name of the example's package.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

from wakeful.cli.exits import CommandFailed
from wakeful.core.resources import examples_folder

HANDLERS: Final = "onboarding.jobs"
_INSTALL: Final = 'pip install "wakeful[demo]"'
_PARTS: Final = (HANDLERS, "onboarding.site", "onboarding.llm", "onboarding.places")


def prepare_example() -> None:
    """Let `onboarding` be imported, and look whether it can be. Raises CommandFailed with what to install."""
    folder = str(examples_folder())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    for name in _PARTS:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise CommandFailed(
                f"the demo needs a library that is not installed: {error.name}", hint=_INSTALL
            ) from error
