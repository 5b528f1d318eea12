"""Settings of the documentation site; ``make docs`` makes the generated pages and then calls Sphinx."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

from toolkit.words import VERSION

project = "LLM security toolkit"
copyright = "the authors of the toolkit, GPL-3.0-or-later"
release = version = VERSION
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["study_keys.toml"]
smartquotes = False  # two hyphens begin an option
default_role = "py:obj"  # between single backticks: a link where the name is on a page, else code

# Headings can be linked to by their words, which Sphinx checks like every other link.
myst_heading_anchors = 4
# Notebooks run before Sphinx, by the toolkit's own engine; see scripts/build_docs.py.
nb_execution_mode = "off"
suppress_warnings = ["mystnb.unknown_mime_type"]  # results for a batch have no picture
nb_ipywidgets_js = {}  # would be loaded from another host

autodoc_typehints = "signature"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # numpy's own spelling takes six lines
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"{project} {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False  # the site is shipped in the wheel
html_show_sphinx = False
html_theme_options = {"footer_icons": [], "navigation_with_keys": True}


def _mathml(translator, node):
    """Write a formula as MathML, which browsers draw without a script from another host."""
    is_block = isinstance(node, nodes.math_block)
    translator.body.append(tex2mathml(node.astext(), as_block=is_block))
    raise nodes.SkipNode


def _prepare(app, page, source):
    """Lead to the copy of a page from outside of docs/."""
    source[0] = source[0].replace(
        "](../../toolkit/prompts/data/rq1_controlled/DATASHEET.md)", "](../generated/datasheet.md)"
    )


def setup(app):
    """Register what Sphinx has no setting for."""
    app.add_html_math_renderer("mathml", inline_renderers=(_mathml, None), block_renderers=(_mathml, None))
    app.connect("source-read", _prepare)
