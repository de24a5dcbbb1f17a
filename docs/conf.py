"""Sphinx's settings for the site: `make docs` builds it into docs/_build/html."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from ridgeformer import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ["MATPLOTLIBRC"] = str(Path(__file__).parent / "_ext" / "matplotlibrc")  # for the cells of notebooks

project = "ridgeformer"
author = "The ridgeformer authors"
project_copyright = "The ridgeformer authors, Apache-2.0"
version = release = __version__

extensions = [
    "myst_nb",  # Markdown, and notebooks whose cells run while the site is built
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",  # reads the sections of our docstrings
    "sphinx.ext.viewcode",  # source links that work without a network
    "sphinx_copybutton",
    "site_parts",
]
exclude_patterns = ["_build", "_ext", "page", "results", "figures"]
default_role = "py:obj"  # what stands between single backticks in a docstring is a name, if there is one
smartquotes = False  # "--out" is not a dash
nitpicky = False  # types of NumPy are named in signatures, and this site has no network to look them up in

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header",  # generated pages begin sections at the level that fits them on their own
    "ref.python",  # a word between backticks may be the name of several attributes
]

nb_execution_mode = "cache"  # a page runs again when its cells change; `make docs` begins with an empty cache
nb_execution_timeout = 600
# PyTorch is too large to be asked for here. Without it that tutorial is shown without outputs.
nb_execution_excludepatterns = [] if find_spec("torch") else ["tutorials/pytorch.md"]
suppress_warnings += [] if find_spec("torch") else ["myst-nb.lexer"]  # cells that did not run have no known language
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_kernel_rgx_aliases = {".*": "python3"}

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "Array"}  # NumPy's arrays, whose shapes are in the texts
autodoc_preserve_defaults = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"ridgeformer {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/ridgeformer/ridgeformer/",
    "source_branch": "main",
    "source_directory": "docs/",
}
# Themes of code with a contrast of at least 4.5 to 1.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
