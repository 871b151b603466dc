//! The smallest program: an engine in memory, a handler, a message.
//!
//! `cargo run -p punctual --example hello`

use punctual::{Engine, NewMessage, Tenant, Work};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), punctual::Error> {
    let (done, mut greeted) = tokio::sync::mpsc::channel(1);
    let greet = move |work: Work| {
        let done = done.clone();
        async move {
            println!("hello, {}", work.message.payload);
            Ok(done.send(()).await?)
        }
    };
    let engine = Engine::builder("sqlite::memory:").handler("greetings", greet).open().await?;
    engine.start();
    engine.enqueue_one(Tenant::DEFAULT, NewMessage::new("greetings", "greet", r#""world""#)).await?;
    greeted.recv().await;
    engine.stop(Duration::from_secs(5)).await;
    Ok(())
}
