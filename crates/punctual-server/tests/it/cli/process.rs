//! Running the binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use punctual::base::random;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A folder of its own for one test, gone afterwards.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("punctual-cli-{}", random::hex::<8>()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A folder in the folder.
    pub fn folder(&self, name: &str) {
        std::fs::create_dir(self.0.join(name)).unwrap();
    }

    /// A database in the folder.
    pub fn database(&self) -> String {
        format!("sqlite:{}", self.0.join("test.db").display())
    }

    /// The binary, with nothing of the caller's environment that would change what it does.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        for name in std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("PUNCTUAL_")) {
            command.env_remove(name);
        }
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command on the test's own database.
    pub fn run(&self, arguments: &[&str]) -> Said {
        let database = self.database();
        self.command(&[arguments, &["--database", &database]].concat()).said()
    }

    /// Runs a command that must succeed, with `--json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let said = self.run(&[arguments, &["--json"]].concat());
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{arguments:?}");
        serde_json::from_str(&said.out).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs to the end.
pub trait Run {
    fn said(&mut self) -> Said;
    fn serve(&mut self) -> Serving;
    /// The same with so many descriptors.
    fn serve_with_descriptors(&mut self, descriptors: u32) -> Serving;
}

impl Run for Command {
    fn said(&mut self) -> Said {
        let output = self.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    fn serve_with_descriptors(&mut self, descriptors: u32) -> Serving {
        let mut shell = Command::new("sh");
        let limit = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        shell.args(["-c", &limit]).arg(self.get_program()).args(self.get_args());
        for (name, value) in self.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(folder) = self.get_current_dir() {
            shell.current_dir(folder);
        }
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).serve()
    }

    /// Starts a server and waits for its ready line.
    fn serve(&mut self) -> Serving {
        let mut child = self.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        out.read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            panic!("not ready: {err}");
        }
        Serving { child, out, ready }
    }
}

/// A server that runs; killed if the test does not stop it.
pub struct Serving {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    pub ready: String,
}

impl Serving {
    /// `address:port` from the ready line.
    pub fn address(&self) -> String {
        let after = self.ready.split("http://").nth(1).expect("a ready line names its address");
        after.split([' ', '"']).next().unwrap().trim().to_owned()
    }

    /// Sends a signal and waits for the end.
    pub fn stop(mut self, signal: &str) -> (ExitStatus, String, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (status, out, err)
    }

    /// The most memory that the server has had, from the system's own count.
    pub fn memory_peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// A GET request: the status and the whole answer.
    pub fn get(&self, path: &str, headers: &str) -> (u16, String) {
        self.send("GET", path, headers, "")
    }

    /// A POST request with a JSON body that must succeed: the answer's own JSON.
    pub fn post(&self, path: &str, headers: &str, body: &Value) -> Value {
        let body = body.to_string();
        let headers =
            format!("{headers}content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let (status, answer) = self.send("POST", path, &headers, &body);
        assert!((200..300).contains(&status), "{path}: {answer}");
        let (_, json) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(json).unwrap()
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let host =
            if headers.contains("host: ") { String::new() } else { format!("host: {}\r\n", self.address()) };
        let fixed = format!("HTTP/1.1\r\n{host}connection: close");
        write!(stream, "{method} {path} {fixed}\r\n{headers}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
