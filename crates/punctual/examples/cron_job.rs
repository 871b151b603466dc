//! A job for every second, declared in code. Its handler stores the output of each run.
//!
//! `cargo run -p punctual --example cron_job`

use punctual::{Engine, NewJob, Tenant, Work};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), punctual::Error> {
    let (done, mut ran) = tokio::sync::mpsc::channel(8);
    let report = move |work: Work| {
        let done = done.clone();
        async move {
            println!("run {} for {}", work.message.payload, work.message.occurred_at);
            work.set_output(r#"{"rows": 7}"#)?;
            Ok(done.send(()).await?)
        }
    };
    let job = NewJob::new("reports", "* * * * * *").time_zone("Europe/Berlin").payload(r#""daily figures""#);
    let engine =
        Engine::builder("sqlite::memory:").handler("reports", report).job("figures", job).open().await?;
    println!("due next at {}", engine.next_fires(Tenant::DEFAULT, "figures", 1).await?[0]);
    engine.start();
    for _ in 0..2 {
        ran.recv().await;
    }
    engine.stop(Duration::from_secs(5)).await;
    let runs = engine.store().runs(Tenant::DEFAULT, "figures", None, 10).await?.unwrap_or_default();
    for run in runs {
        println!("{} {} {}", run.scheduled_at, run.status.word(), run.output.unwrap_or_default());
    }
    Ok(())
}
