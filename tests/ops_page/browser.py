"""A real headless Chromium, driven through chromedriver by the W3C's protocol."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

START_S = 60.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""Under this name the protocol tells of an element."""
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
"""No sandbox, for root has none; no shared memory, for a container has little; and it calls nobody."""


def installed() -> bool:
    """Whether there are a browser and its driver."""
    return _chromium() is not None and shutil.which("chromedriver") is not None


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _driver(log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A chromedriver that listens, and its port. One that finds its port taken ends, and the next one is tried."""
    for _ in range(10):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        with log.open("wb") as out:
            driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=out, stderr=out)
        give_up = time.monotonic() + START_S
        while driver.poll() is None and time.monotonic() < give_up:
            if "started successfully" in log.read_text():
                return driver, port
            time.sleep(0.02)
        driver.kill()
        driver.wait()
    raise AssertionError(log.read_text())


class Browser:
    """One browser with one window. `close` ends both it and its driver."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="busload-chromium-", ignore_cleanup_errors=True)
        self._driver, port = _driver(Path(self._folder.name) / "driver")
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START_S)
        options = {"binary": _chromium(), "args": [*_FLAGS, f"--user-data-dir={self._folder.name}/profile"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        told = self._call("POST", "/session", capabilities={"alwaysMatch": wanted})
        self._session = f"/session/{told['sessionId']}"

    def _call(self, method: str, path: str, **body: Any) -> Any:
        answer = self._http.request(method, path, json=body if method == "POST" else None)
        value = answer.json()["value"]
        assert answer.status_code == 200, f"{value['error']}: {value['message']}"
        return value

    def get(self, url: str) -> None:
        """Go there; returns when the page is loaded."""
        self._call("POST", f"{self._session}/url", url=url)

    @property
    def url(self) -> str:
        return str(self._call("GET", f"{self._session}/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        """What this JavaScript returns."""
        return self._call("POST", f"{self._session}/execute/sync", script=script, args=list(arguments))

    def _element(self, css: str) -> str:
        found = self._call("POST", f"{self._session}/element", using="css selector", value=css)
        return f"{self._session}/element/{found[_ELEMENT]}"

    def click(self, css: str) -> None:
        """As a person's mouse would: what is hidden or covered cannot be clicked."""
        self._call("POST", f"{self._element(css)}/click")

    def type(self, css: str, text: str) -> None:
        self._call("POST", f"{self._element(css)}/value", text=text)

    def text(self, css: str = "body") -> str:
        """The text that a person sees there, from one moment; empty where there is no such element."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')"
        return str(self.run(script, css))

    def style(self, css: str, name: str) -> str:
        """A computed style."""
        return str(self._call("GET", f"{self._element(css)}/css/{name}"))

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", cmd=command, params=parameters)

    def prefers(self, scheme: str) -> None:
        """`dark` or `light`, as the machine's user has set."""
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int, *, is_phone: bool = False) -> None:
        """The window's size in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if is_phone else 1, "mobile": is_phone}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def scripts(self, *, on: bool) -> None:
        """Whether pages' scripts run."""
        self.devtools("Emulation.setScriptExecutionDisabled", value=not on)

    def complaints(self) -> list[str]:
        """What the console said since the last look, but for what was only noted."""
        entries = self._call("POST", f"{self._session}/se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path: Path) -> None:
        """The whole page, as PNG."""
        told = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def forget(self) -> None:
        """As a new browser: no cookies, wide, light, with scripts."""
        self.scripts(on=True)
        self.devtools("Network.clearBrowserCookies")
        self.prefers("light")
        self.resize(1280, 900)
        self.get("about:blank")
        self.complaints()

    def close(self) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._http.close()
            self._driver.terminate()
            self._driver.wait(timeout=START_S)
            self._folder.cleanup()
