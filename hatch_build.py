"""Build hook: with MATCHWOOD_BUILD_KERNELS=FOLDER, a wheel carries the compiled kernels of that folder (`make wheel`).

Such a wheel is for one Python version on Linux x86-64. Without the variable, and for editable installations, the hook does
nothing and the wheel is for every platform.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "MATCHWOOD_BUILD_KERNELS"


class KernelsHook(BuildHookInterface):
    """Adds the kernels to the wheel as `matchwood/_kernels`, and sets its tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is written; `version` is "standard" or "editable"."""
        folder = os.environ.get(VARIABLE)
        if not folder or version == "editable":
            return
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise RuntimeError(f"{VARIABLE}: kernels are built on Linux x86-64, not on {platform.platform()}")
        files = [*Path(folder).glob("kernels-*/*.kernel"), *Path(folder).glob("kernels-*/*.compiled")]
        if not files:
            raise RuntimeError(f"{VARIABLE}={folder} holds no compiled kernels; `make wheel` compiles them")
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-linux_x86_64"
        build_data["force_include"].update(
            {str(path.absolute()): f"matchwood/_kernels/{path.parent.name}/{path.name}" for path in sorted(files)}
        )
