#!/usr/bin/env python3
"""page_check.py - uses the page of weft serve as a person would, in a headless Chromium.

    tools/page_check.py build/weft MODEL [TEMPLATE|-] [PICTURES] [--prompt TEXT]
    tools/page_check.py build/weft MODEL - [PICTURES] --image FILE

It types a message, looks while the answer comes, opens a token's alternatives with the mouse and with the keyboard,
edits, regenerates, stops, and asks for something that the server refuses. It fails if the console says anything, if
anything is requested from elsewhere, if the page is wider than its window, or if an element that should be there is not.
With a model of images it chooses FILE, and looks at its labels.
PICTURES is a directory for what it looked like: light, dark, and 390 pixels wide, during and after an answer.

Needs chromium, and websocket-client of PyPI."""
import argparse
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import websocket


class Page:
    """A tab, through Chromium's DevTools protocol."""

    def __init__(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as tabs:
            url = next(t["webSocketDebuggerUrl"] for t in json.load(tabs) if t["type"] == "page")
        self.socket = websocket.create_connection(url, suppress_origin=True, timeout=30)
        self.n = 0
        self.console, self.requests = [], []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.n += 1
        self.socket.send(json.dumps({"id": self.n, "method": method, "params": params}))
        while True:
            said = json.loads(self.socket.recv())
            if said.get("id") == self.n:
                if "error" in said:
                    raise SystemExit(f"{method}: {said['error']}")
                return said["result"]
            self.note(said)

    def note(self, said):
        method, params = said.get("method"), said.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(str([a.get("value") for a in params["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script, what, seconds=120):
        end = time.time() + seconds
        while not self.run(script):
            if time.time() > end:
                raise SystemExit(f"page_check: {what}: not within {seconds} s")
            time.sleep(0.02)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, code=0, text=None):
        event = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def mouse(self, selector, click=False):
        x, y = self.run(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getClientRects()[0];"
                        " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, width, height, dark, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        time.sleep(0.1)
        wide = self.run("document.documentElement.scrollWidth")
        check(wide <= width, f"at {width} pixels the page is not wider than its window", wide)

    def slow_network(self, slow):
        """Answers come at 20 KB/s, some 40 tokens: a small model would end before anybody could press Stop."""
        self.call("Network.emulateNetworkConditions", offline=False, latency=0, uploadThroughput=-1,
                  downloadThroughput=20000 if slow else -1)

    def picture(self, to, name):
        if to:
            data = self.call("Page.captureScreenshot", format="png")["data"]
            (to / f"{name}.png").write_bytes(base64.b64decode(data))


failed = 0


def check(holds, sentence, found=""):
    global failed
    print("ok    " if holds else "FAILED", sentence, "" if holds else f": {found}")
    failed += not holds


def is_ready(url):
    try:
        with urllib.request.urlopen(url + "/ready"):
            return True
    except urllib.error.HTTPError:
        return False


def start_server(weft, model, template):
    command = [weft, "serve", model, "--port", "0", "--no-log"]
    command += ["--template", template] if template and template != "-" else []
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "listening on " in line:
            url = line.split("listening on ")[1].strip()
            while not is_ready(url):
                time.sleep(0.1)
            return server, url
    raise SystemExit("page_check: the server does not start")


def start_browser(profile):
    browser = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
         f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.DEVNULL)
    at = pathlib.Path(profile) / "DevToolsActivePort"
    for _ in range(600):
        if at.exists() and at.read_text().count("\n"):
            return browser, int(at.read_text().split()[0])
        time.sleep(0.05)
    raise SystemExit("page_check: chromium does not start")


READY = "!document.getElementById('send').hidden"
TURN = "document.querySelector('article:last-of-type')"


def talk(page, to, prompt):
    """A message, its answer, the alternatives of its tokens."""
    page.run("document.getElementById('text').focus()")
    page.type(prompt)
    page.slow_network(True)
    page.key("Enter", 13, "\r")
    page.wait("document.querySelectorAll('.t').length > 12", "tokens")
    check(page.run("!document.getElementById('stop').hidden"), "the button to stop is there while the answer comes")
    page.picture(to, "light-during")
    page.slow_network(False)
    page.wait(READY, "the answer")
    note = page.run("document.querySelector('.under span').textContent")
    check("tokens" in note and "first after" in note and "cached" in note, f"the line of times says: {note}", note)
    page.run("document.querySelectorAll('.t')[4].scrollIntoView({block: 'center'})")
    page.run("document.querySelectorAll('.t')[4].id = 'fifth'")
    page.mouse("#fifth")
    page.wait("!document.getElementById('tip').hidden", "the alternatives under the mouse", 5)
    rows = page.run("document.querySelectorAll('#tip div').length")
    check(rows >= 5, "a token has five alternatives or more", rows)
    check(page.run("document.querySelectorAll('#tip .chosen').length") == 1, "one of them is the chosen one")
    sums = page.run("[...document.querySelectorAll('.t')].map(t => t.textContent).join('').length")
    check(sums > 12, "the answer is made of tokens", sums)
    page.picture(to, "light-after")
    page.look(1100, 800, True)
    page.picture(to, "dark-after")
    page.run("document.querySelectorAll('.t')[0].focus()")
    page.key("ArrowRight", 39)
    check(page.run("document.activeElement === document.querySelectorAll('.t')[1]"), "arrow keys go from token to token")
    check(page.run("!document.getElementById('tip').hidden"), "focus shows the alternatives")
    page.key("Escape", 27)
    check(page.run("document.getElementById('tip').hidden"), "Escape hides them")


def narrow(page, to):
    page.look(390, 844, False, True)
    page.run("document.querySelectorAll('.t')[6].scrollIntoView({block: 'center'})")
    page.run("document.querySelectorAll('.t')[6].id = 'seventh'")
    page.mouse("#seventh", True)
    page.wait("!document.getElementById('tip').hidden", "the alternatives after a tap", 5)
    inside = page.run("(r => r.left >= 0 && r.right <= innerWidth)(document.getElementById('tip').getBoundingClientRect())")
    check(inside, "the alternatives are inside a window of 390 pixels")
    page.picture(to, "narrow-after")
    page.mouse("#tune", True)
    page.wait("!document.getElementById('panel').hidden", "the settings", 5)
    page.look(390, 844, True, True)
    page.picture(to, "narrow-settings-dark")
    page.mouse("#tune", True)
    page.look(1100, 800, False)


def change(page):
    """Regenerate, edit, stop, and an error."""
    n = page.run("document.querySelectorAll('article').length")
    page.run("[...document.querySelectorAll('.under button')].find(b => b.textContent === 'Regenerate').click()")
    page.wait(READY, "the second answer")
    check(page.run("document.querySelectorAll('article').length") == n, "a second answer replaces the first")
    page.run("[...document.querySelectorAll('.under button')].find(b => b.textContent.startsWith('Edit')).click()")
    text = page.run("document.getElementById('text').value")
    check(len(text) > 0, "the last message can be edited", text)
    page.run("document.getElementById('max_tokens').value = ''")
    page.slow_network(True)
    page.key("Enter", 13, "\r")
    page.wait("!document.getElementById('stop').hidden && document.querySelectorAll('.t').length > 4", "a third answer")
    page.mouse("#stop", True)
    page.slow_network(False)
    page.wait(READY, "the end of a stopped answer", 10)
    check(page.run("document.querySelectorAll('.t').length") > 0, "a stopped answer keeps what came")
    note = page.run("[...document.querySelectorAll('.under span')].pop().textContent")
    check("stopped" in note, "its line says that it was stopped", note)
    page.run("document.getElementById('numbers').querySelector('#max_tokens').value = 4")
    page.run("document.getElementById('temperature').removeAttribute('max')")
    page.run("document.getElementById('temperature').value = 3; document.getElementById('text').focus()")
    page.type("Again")
    page.key("Enter", 13, "\r")
    page.wait("!!document.querySelector('.bad')", "an error", 10)
    said = page.run("document.querySelector('.bad').textContent")
    check("temperature: found 3" in said, "an error is what the server says", said)
    said = page.run("(() => { turns.push({ mine: true, text: 'Then' }); const all = history(); turns.pop();"
                    " return all.map(m => m.content).slice(-2).join('|'); })()")
    check(said.endswith("|Then") and "Again|" not in said, "a message without an answer is not sent again", said)
    aborted = page.run("(() => { const was = running = new AbortController();"
                       " document.getElementById('mode').dispatchEvent(new Event('change'));"
                       " running = null; return was.signal.aborted; })()")
    check(aborted, "another task stops the answer that comes")


TEXT = ["Here", " is", " a", " **loop", "**", " with", " `i`", ":", "\n\n", "```c\n", "for (int i = 0; i < 3; i++)\n",
        '    puts("<b>hi</b>");', "\n```", "\n\n", "## Why\n", "<img src=x onerror=alert(1)>", " <script>alert(1)</script>"]


def markdown(page, to):
    """A text with marks and markup, in tokens that lie across them."""
    page.run("""(parts => {
        const t = { text: '', thought: 'First <i>this</i>.', tokens: [], unfolded: true };
        for (const p of parts) addText(t, p, [{ text: p, p: .5, top: [[p, .5]] }]);
        turns = [{ mine: true, text: 'A <i>loop</i>' }, t];
        drawAll();
    })(%s)""" % json.dumps(TEXT))
    count = page.run("['pre', 'h3', 'strong', 'code', 'details'].map(n => "
                     "document.getElementById('talk').getElementsByTagName(n).length).join()")
    check(count == "1,1,1,1,1", "code blocks, headings, bold text, code and thoughts", count)
    found = page.run("document.querySelectorAll('#talk b, #talk i, #talk img, #talk script').length")
    check(found == 0, "markup in a text stays text", found)
    seen = page.run("document.querySelector('#talk pre').textContent")
    check(seen == "".join(TEXT[10:12]), "a code block has its lines", seen)
    page.picture(to, "light-markdown")


def image(page, to, file):
    """A file instead of a text, and a table of labels."""
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    check(page.run("document.getElementById('text').hidden && !document.getElementById('file').hidden"),
          "a model of images takes a file, not a text")
    with tempfile.NamedTemporaryFile(suffix=".png") as large:
        large.truncate(4000000)
        page.call("DOM.setFileInputFiles", nodeId=node, files=[large.name])
        page.mouse("#send", click=True)
        page.wait("!!document.querySelector('.bad')", "a word about a file that is too large", 10)
        said = page.run("document.querySelector('.bad').textContent")
        check("4.0 MB" in said and page.run("!document.getElementById('send').hidden"),
              "a file that no request holds is refused before it is sent", said)
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(file.resolve())])
    page.mouse("#send", click=True)
    page.wait("document.querySelectorAll('#talk table tr').length > 1", "labels")
    shares = page.run("[...document.querySelectorAll('#talk table .n')].map(e => parseFloat(e.textContent.replace('<', '')))")
    check(shares == sorted(shares, reverse=True), "the most likely label comes first", shares)
    for name, (width, dark) in {"image-light": (1100, False), "image-dark": (1100, True), "image-narrow": (390, False)}.items():
        page.look(width, 800, dark)
        page.picture(to, name)


def check_console(page, url, few):
    away = [r for r in page.requests if not r.startswith(url) and not r.startswith("data:")]
    check(not away and len(page.requests) > few, f"all {len(page.requests)} requests go to the server", away)
    expected = [m for m in page.console if "400 (Bad Request)" not in m]
    check(not expected, "the console is silent", expected)


def check_key(page, url):
    page.run("document.getElementById('key').value = 'no-key'; "
             "document.getElementById('key').dispatchEvent(new Event('change'))")
    check(page.run("sessionStorage.getItem('weft-key')") == "no-key" and page.run("localStorage.length") == 0,
          "the key is kept for this tab only")
    check_console(page, url, 5)
    check(any("400 (Bad Request)" in m for m in page.console), "and it would not be: Chromium noted the refused request")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weft")
    p.add_argument("model")
    p.add_argument("template", nargs="?")
    p.add_argument("pictures", nargs="?", type=pathlib.Path)
    p.add_argument("--prompt", default="What is a shuttle, and how does a weaver use it? Answer briefly.")
    p.add_argument("--max-tokens", default="120")
    p.add_argument("--image", type=pathlib.Path)
    a = p.parse_args()
    if a.pictures:
        a.pictures.mkdir(parents=True, exist_ok=True)
    server, url = start_server(a.weft, a.model, a.template)
    profile = tempfile.TemporaryDirectory()
    browser, port = start_browser(profile.name)
    try:
        page = Page(port)
        page.look(1100, 800, False)
        page.call("Page.navigate", url=url + "/")
        page.wait("document.readyState === 'complete' && document.querySelectorAll('#model option').length > 0",
                  "the list of models")
        page.picture(a.pictures, "light-empty")
        page.run(f"document.getElementById('max_tokens').value = {a.max_tokens}; document.getElementById('seed').value = 7")
        if a.image:
            image(page, a.pictures, a.image)
            check_console(page, url, 2)
        else:
            talk(page, a.pictures, a.prompt)
            narrow(page, a.pictures)
            change(page)
            page.picture(a.pictures, "light-error")
            markdown(page, a.pictures)
            check_key(page, url)
    finally:
        for child in (browser, server):
            child.terminate()
            child.wait()
        try:
            profile.cleanup()
        except OSError:
            pass
    sys.exit(1 if failed else 0)


main()
