"""The built site, as readers meet it: in a browser, light and dark, on a phone, with the keyboard, without scripts."""

import functools
import http.server
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, sync_playwright

from autograder.layout import Course, here

ROOT = here().root
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LOCAL_ONLY = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
SECRETS = ["BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"]


def documents(tree: dict | list) -> Iterator[str]:
    """All documents that `_toc.yml` names."""
    if isinstance(tree, list):
        for branch in tree:
            yield from documents(branch)
    elif isinstance(tree, dict):
        yield from (tree[key] for key in ("root", "file") if key in tree)
        for branch in tree.values():
            yield from documents(branch)


TOC = list(documents(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))))
CHAPTERS = [document for document in TOC if document.startswith("chapters/")]
PAGES = [*TOC, "genindex", "search"]


@pytest.fixture(scope="session")
def site(published: Course) -> Path:
    return published.site


@functools.cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def html_files(site: Path) -> list[Path]:
    return [path for path in sorted(site.rglob("*.html")) if not {"_static", "vendor"} & set(path.parts)]


# The files


def test_every_page_of_the_contents_is_built(site: Path) -> None:
    missing = [document for document in PAGES if not (site / f"{document}.html").is_file()]
    assert not missing


def test_links_and_anchors_resolve(site: Path) -> None:
    broken = []
    for path in html_files(site):
        for tag in soup(path).select("[href], [src]"):
            address = tag.get("href") or tag.get("src") or ""
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {address}: there is no such file")
            elif parts.fragment and target.suffix == ".html" and not soup(target).find(id=unquote(parts.fragment)):
                broken.append(f"{path.relative_to(site)}: {address}: there is no such anchor")
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    foreign = []
    for path in html_files(site):
        for tag in soup(path).select("script[src], img[src], iframe[src], source[src], video[src], link[rel][href]"):
            address = tag.get("src") or tag.get("href")
            if urlsplit(address).netloc:
                foreign.append(f"{path.relative_to(site)}: {address}")
    for path in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]+)", path.read_text("utf-8")):
            foreign.append(f"{path.relative_to(site)}: {address}")
    assert not foreign, "\n".join(foreign)


def test_every_picture_says_what_it_shows(site: Path) -> None:
    silent = []
    for path in html_files(site):
        for image in soup(path).find_all("img"):
            alt = image.get("alt")
            is_path = alt is not None and re.search(r"\.(png|svg|jpe?g|gif|webp)$|_build|_images", alt)
            if alt is None or is_path or (not alt.strip() and image.find_parent("article")):
                silent.append(f"{path.relative_to(site)}: {image.get('src')} has the alternative text {alt!r}")
    assert not silent, "\n".join(silent)


def test_no_page_shows_an_error_or_a_solution(site: Path) -> None:
    found = []
    for path in sorted(site.rglob("*")):
        relative = path.relative_to(site)
        if not path.is_file() or path.suffix in {".png", ".woff", ".woff2", ".ttf"} or "vendor" in relative.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        forbidden = [*SECRETS, *(["Traceback"] if path.suffix in {".html", ".ipynb"} else [])]
        # The search index holds stemmed words, without the spaces between them.
        found += [f"{relative}: {word}" for word in forbidden if word in text]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("document", CHAPTERS)
def test_a_chapter_links_to_the_notebook_of_students(site: Path, document: str) -> None:
    downloaded = site / "_sources" / f"{document}.ipynb"
    assert downloaded.read_bytes() == (ROOT / f"{document}.ipynb").read_bytes()
    page = soup(site / f"{document}.html")
    addresses = [tag["href"] for tag in page.select("a[href]")]
    for host in ("mybinder.org", "colab.research.google.com"):
        links = [address for address in addresses if urlsplit(address).netloc == host]
        assert links, f"{document} has no link to {host}"
        assert all(unquote(link).endswith(f"/{document}.ipynb") for link in links)


def test_the_errata_page_holds_every_erratum(site: Path) -> None:
    data = yaml.safe_load((ROOT / "book" / "errata.yml").read_text(encoding="utf-8"))
    page = soup(site / "book" / "errata.html")
    missing = [erratum["id"] for erratum in data["errata"] if page.find(id=erratum["id"].lower()) is None]
    assert not missing
    rows = [[cell.get_text() for cell in row.find_all("td")] for row in page.select(".errata-count tbody tr")]
    printed = {row[0].strip().split(":")[0]: int(row[-1]) for row in rows}
    assert printed == Counter(erratum["class"] for erratum in data["errata"]) + Counter(All=len(data["errata"]))
    assert [erratum["id"] for erratum in data["errata"]] == [f"E-{n:02}" for n in range(1, len(data["errata"]) + 1)]


def test_the_script_of_the_quiz_stays_small() -> None:
    assert (ROOT / "book" / "_static" / "quiz.js").stat().st_size < 6000


# In a browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = f"There is no browser, so the site was not looked at. Install one of: {', '.join(names)}."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=LOCAL_ONLY)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            """Stay quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Visit:
    """A page that is open, with everything that went wrong on it."""

    def __init__(self, page: Page, address: str, document: str) -> None:
        self.page, self.problems = page, []
        page.on("request", lambda request: self._requested(request.url, address))
        page.on("requestfailed", lambda request: self.problems.append(f"not loaded: {request.url}"))
        page.on("response", lambda response: self._answered(response.status, response.url))
        page.on("console", lambda line: self._said(line.type, line.text))
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.goto(f"{address}/{document}.html", wait_until="load")
        page.evaluate("() => window.MathJax?.startup?.promise?.then(() => null)")
        page.wait_for_function("!document.querySelector('.math') || document.querySelector('mjx-container')")

    def _requested(self, url: str, address: str) -> None:
        if not url.startswith((address, "data:", "blob:")):
            self.problems.append(f"asks another host: {url}")

    def _answered(self, status: int, url: str) -> None:
        if status >= 400:
            self.problems.append(f"{status}: {url}")

    def _said(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.problems.append(f"console {kind}: {text}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("document", PAGES)
def test_page(browser: Browser, address: str, document: str, scheme: str) -> None:
    with browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}) as context:
        visit = Visit(context.new_page(), address, document)
        page = visit.page
        text = page.evaluate(
            """() => {
              const copy = (document.querySelector("article") ?? document.body).cloneNode(true);
              copy.querySelectorAll("pre, code, script, style, mjx-container").forEach((element) => element.remove());
              return copy.textContent;
            }"""
        )
        raw = re.findall(r"\\\(.{0,40}|\\\[.{0,40}|\$\$.{0,40}|\{(?:cite|term|doc|ref)\S*\}`.{0,20}|:::.{0,20}", text)
        assert not raw, f"not rendered: {raw}"
        assert page.locator("mjx-merror, [data-mjx-error]").count() == 0, "MathJax does not understand a formula"

        page.evaluate("document.querySelectorAll('details').forEach((element) => (element.open = true))")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        report = page.evaluate(
            "(tags) => axe.run({exclude: [['mjx-math']]}, {runOnly: tags, resultTypes: ['violations']})", STANDARDS
        )
        violations = [
            f"{violation['impact']}: {violation['help']}: {violation['nodes'][0]['html'][:200]}"
            for violation in report["violations"]
            if violation["impact"] in {"serious", "critical"}
        ]
        assert not violations, "\n".join(violations)
        assert not visit.problems, "\n".join(visit.problems)


@pytest.mark.parametrize("document", PAGES)
def test_page_fits_a_phone(browser: Browser, address: str, document: str) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        visit = Visit(context.new_page(), address, document)
        visit.page.evaluate("document.querySelectorAll('details').forEach((element) => (element.open = true))")
        visit.page.wait_for_timeout(200)
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"the page is {width} pixels wide on a phone"
        assert not visit.problems, "\n".join(visit.problems)


@pytest.mark.parametrize("document", CHAPTERS)
def test_chapter_opens_from_the_disk(browser: Browser, site: Path, document: str) -> None:
    with browser.new_context() as context:
        visit = Visit(context.new_page(), site.as_uri(), document)
        assert not visit.problems, "\n".join(visit.problems)
        assert visit.page.locator("mjx-container").count() > 0


# The quiz


@pytest.mark.parametrize("document", CHAPTERS)
def test_quiz_answers_to_the_keyboard(browser: Browser, address: str, document: str) -> None:
    with browser.new_context() as context:
        page = Visit(context.new_page(), address, document).page
        questions = page.locator("fieldset.quiz")
        assert questions.count() > 0, f"{document} has no quiz"
        for number in range(questions.count()):
            question = questions.nth(number)
            inputs, status = question.locator("input"), question.get_by_role("status")
            button = question.get_by_role("button", name="Check")
            right = inputs.evaluate_all("(all) => all.map((input) => 'right' in input.dataset)")

            button.focus()
            page.keyboard.press("Enter")
            assert "Choose an answer" in status.inner_text()

            choose(page, question, [not is_right for is_right in right] if is_radio(inputs) else [True] * len(right))
            if not all(right):
                assert status.inner_text().startswith("Not right")
                assert len(status.inner_text()) > len("Not right."), "no reason is given"

            choose(page, question, right)
            assert status.inner_text().startswith("Right."), status.inner_text()
            if right.count(True) > 1:
                first = right.index(True)
                choose(page, question, [is_right and index != first for index, is_right in enumerate(right)])
                assert status.inner_text().startswith("Right so far")


def is_radio(inputs) -> bool:
    return inputs.first.get_attribute("type") == "radio"


def choose(page: Page, question, wanted: list[bool]) -> None:
    """Choose with the keyboard only, go on to the button with Tab, and press it."""
    inputs = question.locator("input")
    inputs.first.focus()
    assert question.locator("label.quiz-option").first.evaluate("(e) => getComputedStyle(e).outlineStyle") != "none"
    if is_radio(inputs):
        inputs.first.press("Space")
        for _ in range(wanted.index(True)):
            page.keyboard.press("ArrowDown")
    else:
        for index, want in enumerate(wanted):
            if index:
                page.keyboard.press("Tab")
            if inputs.nth(index).is_checked() != want:
                page.keyboard.press("Space")
    for _ in range(10):  # formulas that scroll by themselves lie between
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "BUTTON":
            break
    assert page.evaluate("document.activeElement.textContent") == "Check"
    page.keyboard.press("Enter")


@pytest.mark.parametrize("document", CHAPTERS)
def test_quiz_and_hints_work_without_scripts(browser: Browser, address: str, document: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/{document}.html")
        assert page.locator(".quiz-check button:visible").count() == 0, "a button that can do nothing is shown"
        questions = page.locator("fieldset.quiz")
        assert questions.count() > 0, f"{document} has no quiz"
        for number in range(questions.count()):
            question = questions.nth(number)
            reasons = question.locator(".quiz-reasons li")
            assert reasons.count() == question.locator("input").count()
            assert not reasons.first.is_visible()
            question.locator(".quiz-reasons summary").click()
            for text in reasons.all_inner_texts():
                assert re.match(r"[a-z]\) (Right|Wrong)\. \S", text), f"an option without a reason: {text!r}"
        hint = page.locator("details.hint").first
        assert not hint.locator("p").first.is_visible()
        hint.locator("summary").click()
        assert hint.locator("p").first.is_visible()
