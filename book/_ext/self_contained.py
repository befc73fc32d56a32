"""Keeps the site on its own host, and complete on every page."""

from sphinx.application import Sphinx


def drop_thebe(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Removes what sphinx-thebe, which Jupyter Book always loads, adds to every page: a script that names a CDN."""
    unwanted = [
        script
        for script in context["script_files"]
        if "thebe" in str(script) or "THEBE" in (getattr(script, "attributes", {}).get("body") or "")
    ]
    for script in unwanted:
        context["script_files"].remove(script)
    css = context["css_files"]
    for style in [style for style in css if "thebe" in str(style)]:
        css.remove(style)


def setup(app: Sphinx) -> dict:
    # Otherwise a page without formulas, seen first, leaves out MathJax where a later page needs it.
    app.set_html_assets_policy("always")
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
