"""The built site: its links lead somewhere, it needs no network, and a browser shows it as it is meant."""

import inspect
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ozaki
from tests.docs import browser
from tests.docs.reference import loaded

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMES = {path: str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))}


class Links(HTMLParser):
    """What a page of the built site refers to, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors, self.without_text, self.raw = [], [], set(), [], []
        self.in_code = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.in_code += tag in ("code", "script", "style")
        self.anchors.add(found.get("id"))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.loaded.append(found["href"])
        if tag == "img" and not found.get("alt"):
            self.without_text.append(found["src"])

    def handle_endtag(self, tag):
        self.in_code -= tag in ("code", "script", "style")

    def handle_data(self, text):
        if not self.in_code and re.search(r"\]\(|```|\$\$", text):
            self.raw.append(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site: path of each page, and its links."""
    pytest.importorskip("mkdocstrings")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name in ("docs", "examples", "multiword", "ozaki"):  # as CI has it, without anything else beside it
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", source)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder, {p: Links(p.read_text()) for p in folder.rglob("*.html") if p.name != "404.html"}


def test_site_has_every_page(site):
    folder, pages = site
    assert {folder / Path(name).with_suffix(".html") for name in NAMES.values()} == set(pages)


def side_bars(entries):
    """The lists of entries that open at a time, below a tab and below each of its entries."""
    yield entries
    for entry in entries:
        for below in entry.values() if isinstance(entry, dict) else ():
            if isinstance(below, list):
                yield from side_bars(below)


def test_side_bars_have_at_most_ten_entries():
    yaml = pytest.importorskip("mkdocs.utils.yaml")
    with (ROOT / "mkdocs.yml").open() as file:
        config = loaded("pages").on_config({"docs_dir": DOCS, "nav": yaml.yaml_load(file)["nav"]})
    tabs = [name for entry in config["nav"] for name in entry]
    assert tabs == ["Start", "Guides", "How it works", "Performance", "Reference", "Develop"]
    bars = list(side_bars(config["nav"]))
    assert len(bars) > len(tabs)
    assert all(len(bar) <= 10 for bar in bars), max(bars, key=len)


def test_links_and_anchors_lead_somewhere(site):
    _, pages = site
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if not parts.scheme:
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                target = target / "index.html" if target.is_dir() else target
                assert target.exists(), f"{path.name}: {link}"
                if parts.fragment and target in pages:
                    assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {link}"


def test_site_needs_no_network(site):
    for path, page in site[1].items():
        for source in page.loaded:
            assert not urlsplit(source).scheme, f"{path.name}: {source}"
            assert not source.startswith("//"), f"{path.name}: {source}"
            assert (path.parent / unquote(urlsplit(source).path)).exists(), f"{path.name}: {source}"


def test_styles_load_what_is_there(site):
    folder, _ = site
    for target in re.findall(r"url\(([^)]+)\)", (folder / "extra.css").read_text()):
        assert (folder / target).exists(), target
    assert (folder / "fonts" / "LICENSE.txt").exists()


def test_search_needs_no_server(site):
    """The index is a script, which a page read from a folder may load; the worker has a substitute."""
    folder, _ = site
    assert "var __index" in (folder / "search" / "search_index.js").read_text()[:20]
    for path in folder.rglob("*.html"):
        assert "iframe-worker.js" in path.read_text(), path.name


def test_signatures_are_complete(site):
    """With every parameter and its default, on lines of their own where there are many."""
    folder, _ = site
    pages = [folder / "reference" / f"{name}.html" for name in ("products", "plans", "sums")]
    text = re.sub(r"<[^>]+>", "", "".join(page.read_text() for page in pages))
    shown = text.replace("&#39;", "'").replace("&quot;", '"')
    for name in ("matmul", "accurate_dgemm", "plan", "sum"):
        for parameter in inspect.signature(getattr(ozaki, name)).parameters:
            assert re.search(rf"\b{name}\([^)]*\b{parameter}\b", shown), f"{name}: {parameter}"


def test_no_markdown_is_left(site):
    for path, page in site[1].items():
        assert not page.raw, path.name


def test_formulas_are_drawn(site):
    pytest.importorskip("latex2mathml")
    folder, _ = site
    for path, name in NAMES.items():
        drawn = (folder / name).with_suffix(".html").read_text().count('<p class="formula"><math ')
        assert drawn == path.read_text().count("\n```math\n"), name


def test_pictures_are_described(site):
    for path, page in site[1].items():
        assert not page.without_text, path.name


needs_chromium = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium")

FAULTS = """<!doctype html><meta charset="utf-8"><title>x</title>
<body style="background: white"><article style="width: 2000px">
<p>\u0378 has no glyph</p><p style="color: #ddd">pale</p><img src="missing.png" alt="x">
<div style="overflow: hidden; width: 50px">cut_off_at_the_side</div>
<p class="formula" style="overflow: auto; height: 5px; width: 1px">
<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math></p>
</article>"""
"""A page with one of each fault."""


@needs_chromium
def test_the_browser_sees_faults(tmp_path):
    (tmp_path / "faults.html").write_text(FAULTS)
    (tmp_path / "sound.html").write_text("<!doctype html><title>x</title><article><p>Sound.</p></article>")
    high = '<!doctype html><title>x</title><article><div style="height: 4600px">High.</div></article>'
    (tmp_path / "performance.html").write_text(high)
    seen = browser.look(tmp_path, ["faults.html", "sound.html", "performance.html"], (800,), seconds=60)
    assert seen["sound.html"] == []
    assert seen["performance.html"] == ["800 pixels: page takes 5.1 screens"]
    for fault in (
        "no glyph for U+378",
        "font of the formulas is not used",
        "page is 20",
        "cut off at the side",
        "formula has a scroll bar",
        "formula is clipped",
        "formula goes on without a sign",
        "missing.png does not load",
        "light: contrast 1.4",
    ):
        assert any(fault in text for text in seen["faults.html"]), f"{fault}: {seen}"


@pytest.mark.slow
@needs_chromium
def test_pages_are_whole_in_a_browser(site):
    """As wide as a desk's screen and a phone's, light and dark."""
    folder, pages = site
    names = [path.relative_to(folder).as_posix() for path in pages]
    seen = browser.look(folder, names, (1280, 390), seconds=300)
    assert {name: faults for name, faults in seen.items() if faults} == {}
    assert len(seen) == len(names)
