//! Drives a page in a headless Chromium by its debugging protocol: messages of JSON over a pair of
//! pipes. Wheel and pointer events come from the browser itself, as those of a user do.

#![allow(dead_code)] // : each file uses a part of it

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A browser with one open page; it ends with this value.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    last_id: u64,
}

impl Browser {
    /// Opens a page. The pipes and the browser's profile are in `folder`.
    pub(crate) fn open(program: &Command, folder: &Path, page: &Path) -> Self {
        Self::open_address(program, folder, &format!("file://{}", page.display()))
    }

    /// Opens a page by its address.
    pub(crate) fn open_address(program: &Command, folder: &Path, address: &str) -> Self {
        let made = Command::new("mkfifo").args(["to", "from"]).current_dir(folder).status();
        assert!(made.expect("mkfifo ran").success());
        // The browser reads from file descriptor 3 and writes to 4.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<to 4>from"])
            .arg(program.get_program())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--window-size=1200,1600",
            ])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        // Opened for both directions, the pipe needs no reader yet.
        let to = OpenOptions::new().read(true).write(true).open(folder.join("to")).expect("a pipe");
        let from = BufReader::new(File::open(folder.join("from")).expect("a pipe"));
        let mut browser = Self { child, to, from, session: None, last_id: 0 };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attached);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}));
        browser.call("Page.navigate", json!({ "url": address }));
        while browser.message()["method"] != "Page.loadEventFired" {}
        browser
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("a pipe");
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// Calls a function of the protocol and waits for its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut call = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        write!(self.to, "{call}\0").expect("a pipe");
        loop {
            let mut message = self.message();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
        }
    }

    /// Returns the value of a script's expression; a promise is awaited.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let call = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut found = self.call("Runtime.evaluate", call);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].take()
    }

    /// Waits until the page has unpacked its requests, and returns what it says of itself.
    pub(crate) fn ready(&mut self) -> Value {
        self.value(
            "new Promise(done => { const look = () => { const { dataset } = document.body;
               if (dataset.ready || dataset.error) done({ ...dataset }); else setTimeout(look, 5); }; look(); })",
        )
    }

    /// Waits until what was asked for is drawn, and returns what the page says of itself.
    pub(crate) fn drawn(&mut self) -> Value {
        self.value(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done({
               ...document.body.dataset, where: document.getElementById('where').textContent,
               picked: document.getElementById('picked').textContent }))))",
        )
    }

    /// Returns left and top of an element on the screen, and the width of its content.
    pub(crate) fn place(&mut self, id: &str) -> [f64; 3] {
        let place = self.value(&format!(
            "(() => {{ const canvas = document.getElementById('{id}'), box = canvas.getBoundingClientRect();
               return [box.left, box.top, canvas.clientWidth]; }})()"
        ));
        [0, 1, 2].map(|at| place[at].as_f64().expect("a number"))
    }

    fn mouse(&mut self, kind: &str, x: f64, y: f64, more: &Value) {
        let mut event = json!({ "type": kind, "x": x, "y": y });
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Turns the wheel by one step; a negative one zooms in.
    pub(crate) fn wheel(&mut self, x: f64, y: f64, step: f64) {
        self.mouse("mouseWheel", x, y, &json!({ "deltaX": 0, "deltaY": step }));
    }

    /// Shows the page as a phone does: a touch screen that is 390 pixels wide.
    pub(crate) fn be_a_phone(&mut self) {
        let screen = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", screen);
        self.call(
            "Emulation.setTouchEmulationEnabled",
            json!({ "enabled": true, "maxTouchPoints": 2 }),
        );
    }

    /// Puts two fingers on the screen, moves them, and lifts them.
    pub(crate) fn pinch(&mut self, from: [(f64, f64); 2], to: [(f64, f64); 2]) {
        for (kind, fingers) in
            [("touchStart", &from[..]), ("touchMove", &to[..]), ("touchEnd", &[])]
        {
            let points: Vec<Value> = fingers
                .iter()
                .enumerate()
                .map(|(id, (x, y))| json!({ "x": x, "y": y, "id": id }))
                .collect();
            let event = json!({ "type": kind, "touchPoints": points });
            self.call("Input.dispatchTouchEvent", event);
        }
    }

    /// Presses the button at a place, moves through others, and releases it at the last.
    pub(crate) fn drag(&mut self, from: (f64, f64), through: &[(f64, f64)]) {
        let button = json!({ "button": "left", "buttons": 1, "clickCount": 1 });
        self.mouse("mouseMoved", from.0, from.1, &json!({}));
        self.mouse("mousePressed", from.0, from.1, &button);
        for &(x, y) in through {
            self.mouse("mouseMoved", x, y, &button);
        }
        let &(x, y) = through.last().unwrap_or(&from);
        self.mouse("mouseReleased", x, y, &json!({ "button": "left", "clickCount": 1 }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own processes end with it, and nothing of it is kept.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The period of the requests of [`regular_trace`], and how long each takes, in nanoseconds.
pub(crate) const PERIOD: u64 = 100_000;
pub(crate) const TAKES: u64 = 60_000;

/// A trace of requests at regular times, one line each: request n begins after n periods and reads
/// 4 KiB at sector 8 n.
pub(crate) fn regular_trace(requests: u64) -> String {
    let line = |n: u64| {
        let (time, offset) = (128_166_375_000_000_000 + n * PERIOD / 100, n * 4096);
        format!("{time},srv0,1,Read,{offset},4096,{}\n", TAKES / 100)
    };
    (0..requests).map(line).collect()
}
