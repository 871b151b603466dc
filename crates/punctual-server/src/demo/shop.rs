//! What the shop does.

use punctual::base::random;
use punctual::{Engine, HandlerError, HandlerResult, NewMessage, Result, Tenant, Work};
use serde_json::json;
use std::time::Duration;

/// The topics of the shop.
pub const TOPICS: [&str; 3] = ["orders", "invoices", "emails"];

const CUSTOMERS: u64 = 40;
/// The time between two sales, at least and at most.
const BETWEEN_SALES_MS: (u64, u64) = (300, 1_500);
/// How long handling takes, at least and at most.
const HANDLING_MS: (u64, u64) = (20, 900);
/// An invoice goes out this long after its order.
const INVOICE_AFTER: Duration = Duration::from_secs(20);
/// Of a hundred attempts, how many go wrong for now, and how many for good.
const TROUBLE_PERCENT: (u64, u64) = (12, 2);

/// Tells the queues how patient to be.
///
/// # Errors
/// When the database does not answer.
pub async fn prepare(engine: &Engine) -> Result<()> {
    for topic in TOPICS {
        let patience = json!({
            "maxAttempts": 3,
            "backoff": ["2s", "5s"],
            "deadHead": "pass",
            "retention": "1h",
        });
        let change = patience.as_object().cloned().unwrap_or_default();
        engine.store().set_queue(Tenant::DEFAULT, topic, change).await?;
    }
    Ok(())
}

/// Sells until the process ends.
pub async fn sell(engine: Engine) {
    let mut order = 1_000;
    loop {
        let seed = random::seed();
        order += 1;
        if let Err(error) = sell_one(&engine, order, seed).await {
            tracing::warn!(target: "punctual", %error, "the demo could not sell anything");
        }
        tokio::time::sleep(between(BETWEEN_SALES_MS, seed)).await;
    }
}

async fn sell_one(engine: &Engine, order: u64, seed: u64) -> Result<()> {
    let customer = format!("customer-{}", seed % CUSTOMERS + 1);
    let story = format!("order-{order}");
    let total = f64::from(u32::try_from(seed % 20_000).unwrap_or(0)) / 100.0;
    let payload = json!({"order": order, "customer": customer, "total": total}).to_string();
    let due = engine.store().now().await?.plus(INVOICE_AFTER);
    let message = |topic: &str, kind: &str| {
        NewMessage::new(topic, kind, payload.clone())
            .key(customer.clone())
            .correlation_id(story.clone())
            .entity("order", order.to_string())
    };
    let story = vec![
        message("orders", "order.placed"),
        message("emails", "order.confirmation"),
        message("invoices", "invoice.due").due_at(due),
    ];
    engine.enqueue(Tenant::DEFAULT, story).await.map(|_| ())
}

/// Takes a while, and now and then does not succeed.
///
/// # Errors
/// As often as `TROUBLE_PERCENT` says.
pub async fn handle(work: Work) -> HandlerResult {
    let seed = random::seed();
    tokio::time::sleep(between(HANDLING_MS, seed)).await;
    let result = trouble(&work.message.topic, seed / 7 % 100);
    let outcome = if result.is_ok() { "done" } else { "failed" };
    metrics::counter!("punctual_demo_handled_total", "outcome" => outcome).increment(1);
    result
}

fn trouble(topic: &str, draw: u64) -> HandlerResult {
    let (for_now, for_good) = TROUBLE_PERCENT;
    let (later, never) = match topic {
        "emails" => ("451 4.7.1 greylisted, try again later", "550 5.1.1 the mailbox does not exist"),
        "invoices" => {
            ("the accounting system did not answer within 5 s", "the customer has no billing address")
        }
        _ => ("the warehouse is locked by another process", "the article was discontinued"),
    };
    if draw < for_good {
        Err(HandlerError::fail(never))
    } else if draw < for_good + for_now {
        Err(HandlerError::retry(later))
    } else {
        Ok(())
    }
}

fn between((least, most): (u64, u64), seed: u64) -> Duration {
    Duration::from_millis(least + seed % (most - least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_comes_as_often_as_it_says() {
        let all: Vec<HandlerResult> = (0..100).map(|draw| trouble("emails", draw)).collect();
        let failed = all.iter().filter(|r| matches!(r, Err(HandlerError::Fail { .. }))).count();
        let retried = all.iter().filter(|r| matches!(r, Err(HandlerError::Retry { .. }))).count();
        assert_eq!((failed, retried), (2, 12));
    }
}
