"""A look at pages in headless Chromium, through the standard library alone."""

import json
import shutil
import subprocess
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

SCRIPT = Path(__file__).with_suffix(".js")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1600,1000",
)


class _Handler(SimpleHTTPRequestHandler):
    """The site, the page with the frame, and what its script finds."""

    def __init__(self, *arguments, page: str, reports: Queue, **options):
        self.page, self.reports = page, reports
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        if self.path != "/look":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def look(folder: Path, pages: list[str], widths: tuple[int, ...], seconds: float) -> dict[str, list[str]]:
    """What is wrong with each page of a site at these widths, in the light and in the dark."""
    data = f"const PAGES = {json.dumps(pages)}, WIDTHS = {json.dumps(widths)};"
    page = f"<!doctype html><iframe height=900></iframe><script>{data}{SCRIPT.read_text()}</script>"
    reports: Queue = Queue()
    handler = partial(_Handler, directory=str(folder), page=page, reports=reports)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True  # the browser's children may still write there
        ) as profile,
    ):
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/look"
        command = [
            str(CHROMIUM),
            *OPTIONS,
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            address,
        ]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return reports.get(timeout=seconds)
        finally:
            browser.kill()
            browser.wait()
            server.shutdown()
