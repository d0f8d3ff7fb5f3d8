"""Hooks of `mkdocs build`: add the pages beside docs/ to the site, and rewrite links between the two.

In the repository README.md links to `docs/language.md`; on the site both are in one folder. A link is resolved in the
repository and rewritten for the site, so that it works in both and `--strict` checks it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

BESIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")


def on_config(config: Any) -> Any:
    """List all examples and decisions in the navigation."""
    pages = sorted(path.name for path in (Path(config.docs_dir) / "decisions").glob("*.md"))
    for item in config.nav:
        if "Examples" in item:
            item["Examples"] = [f"examples/{path.stem}.md" for path in examples(config)]
        if "Decisions" in item:
            item["Decisions"] = [f"decisions/{name}" for name in sorted(pages, key=lambda name: name != "README.md")]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages beside docs/."""
    root = Path(config.config_file_path).parent
    for name in BESIDE:
        files.append(File.generated(config, name, abs_src_path=str(root / name)))
    for path in examples(config):
        title = path.stem.replace("_", " ").capitalize()
        text = f"# {title}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    return files


def examples(config: Any) -> list[Path]:
    """The examples; each becomes a page that shows its source."""
    return sorted((Path(config.config_file_path).parent / "examples").rglob("*.py"))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite the links of a page."""
    path = page.file.src_uri
    place = path if path in BESIDE else f"docs/{path}"
    return LINK.sub(lambda found: found[1] + followed(found[2], place, path) + found[3], markdown)


def followed(link: str, place: str, path: str) -> str:
    """The link in the file `place` of the repository, rewritten for the page `path` of the site."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
    target = target.removeprefix("docs/")
    if target.startswith("examples/"):
        target = target.removesuffix(".py") + ".md"
    return posixpath.relpath(target, posixpath.dirname(path) or ".")
