"""An extension of griffe for `make docs`: examples in docstrings, from `>>>` to the next empty line, are shown as code."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Puts fences around doctests."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite a docstring once it has been read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with a fence around each run of lines that begins with `>>>`; examples that only a blank line parts stay together.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    blocks: list[str] = []
    for block in text.split("\n\n"):
        if not block.lstrip().startswith(">>>"):
            blocks.append(block)
        elif blocks and blocks[-1].endswith("\n```"):
            blocks[-1] = f"{blocks[-1][:-4]}\n\n{block}\n```"
        else:
            blocks.append(f"```pycon\n{block}\n```")
    return "\n\n".join(blocks)
