//! Rounds: every contender enqueues and drains once in each, in an order that rotates.
//!
//! A contender that fails is left out of the remaining rounds and reported with its words; the others
//! go on. One line per turn goes to standard error.

use anyhow::Result;

use crate::contender::Contender;
use crate::series::{Series, rate};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Messages in each round.
    pub messages: usize,
    /// Rounds.
    pub rounds: usize,
}

/// What a contender did in all its rounds.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The contender's name.
    pub name: String,
    /// Messages enqueued per second.
    pub enqueue: Series,
    /// Messages drained per second.
    pub drain: Series,
    /// Bytes of WAL per message, enqueue and drain together.
    pub wal: Series,
    /// Why it was left out, if it was.
    pub failed: Option<String>,
}

/// Runs all rounds; the answer is in the order of the contenders.
pub async fn interleaved(contenders: &[Box<dyn Contender>], plan: Plan) -> Vec<Measured> {
    let mut all: Vec<Measured> = contenders.iter().map(|c| named(c.as_ref())).collect();
    for round in 0..plan.rounds {
        for place in rotated(round, contenders.len()) {
            let (contender, measured) = (&contenders[place], &mut all[place]);
            if measured.failed.is_some() {
                continue;
            }
            if let Err(error) = turn(contender.as_ref(), plan.messages, measured).await {
                eprintln!("  {}: failed: {error:#}", measured.name);
                measured.failed = Some(format!("{error:#}"));
                continue;
            }
            tell(round + 1, plan.rounds, measured);
        }
    }
    all
}

/// Drains again and again on the same tables, `times` in a row, with no vacuum but the server's own.
/// Gives the rate of each drain.
pub async fn in_a_row(contender: &dyn Contender, n: usize, times: usize) -> Result<Vec<f64>> {
    contender.prepare().await?;
    let mut rates = Vec::with_capacity(times);
    for _ in 0..times {
        contender.enqueue(n).await?;
        rates.push(rate(n, contender.drain(n).await?));
    }
    let text: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    eprintln!("  {}: {times} drains in a row: {}", contender.name(), text.join(" "));
    Ok(rates)
}

/// The places 0 to `n`, beginning with another one each round.
pub fn rotated(round: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |place| (place + round) % n)
}

async fn turn(contender: &dyn Contender, n: usize, measured: &mut Measured) -> Result<()> {
    contender.prepare().await?;
    let before = contender.wal().await?;
    let enqueue = contender.enqueue(n).await?;
    let between = contender.wal().await?;
    contender.settle().await?;
    let rested = contender.wal().await?;
    let drain = contender.drain(n).await?;
    let after = contender.wal().await?;
    measured.enqueue.push_rate(n, enqueue);
    measured.drain.push_rate(n, drain);
    if let (Some(a), Some(b), Some(c), Some(d)) = (before, between, rested, after) {
        measured.wal.push(((b - a) + (d - c)) as f64 / n as f64);
    }
    Ok(())
}

fn named(contender: &dyn Contender) -> Measured {
    Measured { name: contender.name().to_owned(), ..Measured::default() }
}

fn tell(round: usize, rounds: usize, measured: &Measured) {
    eprintln!(
        "  round {round}/{rounds}  {:32} enqueue {:>9.0}/s  drain {:>9.0}/s",
        measured.name,
        measured.enqueue.last(),
        measured.drain.last(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_rotates() {
        assert_eq!(rotated(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(rotated(4, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
