//! Messages that a Python program enqueues with Punctual's SQL functions, handled here.
//!
//! `cargo run -p punctual --example sql_function`: starts a PostgreSQL server of its own and
//! runs `examples/sql_function.py` with the Python in `$PUNCTUAL_CLIENTS/python` (`./test`
//! makes it), or with `python3`, which needs psycopg.

use punctual::testing::cluster::{Cluster, ClusterOptions};
use punctual::{Engine, Work};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let cluster = Cluster::start(&ClusterOptions::fast())?;
    let url = cluster.url("postgres");
    let (done, mut seen) = tokio::sync::mpsc::channel(2);
    let handler = |word: &'static str| {
        let done = done.clone();
        move |work: Work| {
            let done = done.clone();
            async move {
                println!("{word}: {} {}", work.message.kind, work.message.payload);
                Ok(done.send(()).await?)
            }
        }
    };
    let engine = Engine::builder(&url).handler("orders", handler("placed"));
    let engine = engine.handler("reminders", handler("due")).open().await?;
    engine.start();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sql_function.py");
    let status = Command::new(python()).arg(script).arg(&url).status()?;
    if !status.success() {
        return Err("the Python program failed; it needs psycopg: pip install 'psycopg[binary]'".into());
    }
    for _ in 0..2 {
        tokio::time::timeout(Duration::from_secs(30), seen.recv()).await?;
    }
    engine.stop(Duration::from_secs(5)).await;
    Ok(())
}

fn python() -> PathBuf {
    let installed = std::env::var_os("PUNCTUAL_CLIENTS").map(PathBuf::from);
    installed.map(|clients| clients.join("python/bin/python")).unwrap_or_else(|| "python3".into())
}
