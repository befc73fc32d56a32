"""What is changed in every page, because of the tools that write it."""

from sphinx.application import Sphinx


def disconnect_thebe(app: Sphinx) -> None:
    """Jupyter Book always loads sphinx-thebe, which adds a script to every page that names another host."""
    for listeners in app.events.listeners.values():
        for listener in [listener for listener in listeners if listener.handler.__module__ == "sphinx_thebe"]:
            app.disconnect(listener.id)
    app.registry.css_files[:] = [style for style in app.registry.css_files if "thebe" not in style[0]]


def repair_roles(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """docutils writes a list of citations whose members are no list items, which screen readers then leave out."""
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def setup(app: Sphinx) -> dict:
    disconnect_thebe(app)
    # Otherwise a page without formulas of its own, such as the search page, goes without MathJax.
    app.set_html_assets_policy("always")
    app.connect("html-page-context", repair_roles)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
