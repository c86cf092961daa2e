"""Sphinx configuration. The pages build offline and load nothing from outside."""

import re
from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes

project = "mdcontest"
author = "the mdcontest authors"
release = version = installed_version("mdcontest")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "Thumbs.db", ".DS_Store"]
source_suffix = {".md": "markdown"}
root_doc = "index"

# Formulas are Unicode text, so no MathJax and no dollarmath: MathJax would come from a CDN.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

napoleon_google_docstring = True
napoleon_numpy_docstring = False
autoclass_content = "both"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_type_aliases = {"Array": "Array", "ArrayLike": "ArrayLike", "Features": "Features"}
python_use_unqualified_type_names = True
smartquotes_action = "D"  # dashes only: a prime in a formula is no apostrophe

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_title = f"mdcontest {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path: list[str] = []

CODE = re.compile(r"(`[^`]+`)")
FIELD = re.compile(r"(\s*:[\w \\]+: ?)?")
COLON = "\ue000"
"""Stands for a colon while napoleon looks at the docstring of an attribute, which it would read as "type: text"."""


def hide_colons(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    if what in ("attribute", "property", "data"):
        lines[:] = [line.replace(":", COLON) for line in lines]


def plain_docstring(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `code`: keep |A|, P* and d_ in formulas from being read as markup."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith(("..", ">>>")):
            continue
        field = FIELD.match(line)[0]  # napoleon has made fields such as ":param x:" by now
        parts = CODE.split(line[len(field) :].replace(COLON, ":"))
        lines[i] = field + "".join(f"`{part}`" if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([|*])", r"\\\1", re.sub(r"(\w)_(?=\W|$)", r"\1\\_", text))


def trim_code(_app: Any, doctree: nodes.document) -> None:
    """Doctests need a blank line before the closing fence; readers do not."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block[:] = [nodes.Text(block.rawsource)]


def setup(app: Any) -> None:
    app.connect("doctree-read", trim_code)
    # One before and one after napoleon, whose listener has the default priority 500.
    app.connect("autodoc-process-docstring", hide_colons, priority=100)
    app.connect("autodoc-process-docstring", plain_docstring, priority=900)
