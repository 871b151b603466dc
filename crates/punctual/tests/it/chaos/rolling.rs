//! A rolling restart: each of three processes is asked to stop and is started again, under load.
//!
//! It measures how long messages wait, so `./test` runs what is called `measured` while nothing else runs.

use super::checker;
use super::world::{Plan, Setup, World};
use punctual::testing::Backend;
use std::time::Duration;

/// No message waits longer because of it, in microseconds.
const WAIT_MAX: i64 = 2_000_000;
/// Between two stops: a process is up again, and has work.
const BETWEEN: Duration = Duration::from_millis(1_500);

/// PLT-26: by the database's clock, from when a message was due until it was claimed first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_26_measured_a_rolling_restart_makes_no_message_wait() {
    let mut world = World::start(Setup::new("rolling", Backend::Postgres, vec![0, 0, 0])).await;
    // Everybody is there before the load begins.
    let warm =
        Plan { n: 0, seed: 1, operations: 50, only: None, injections: Vec::new(), pace_ms: 0, beside: true };
    let broken = world.round(&warm).await;
    assert!(broken.is_empty(), "{}", checker::sentences(&broken));
    let plan = Plan { n: 1, operations: 4_000, pace_ms: 15, ..warm };
    world.begin(&plan).await;
    for slot in 0..world.workers() {
        tokio::time::sleep(BETWEEN).await;
        world.stop(slot).await;
        world.start_again(slot);
    }
    let broken = world.end().await;
    assert!(broken.is_empty(), "{}", checker::sentences(&broken));
    let mut late = world.lateness();
    late.sort_unstable();
    let (median, worst) = (late[late.len() / 2], late[late.len() - 1]);
    println!("{} messages: half were claimed within {median} us, all within {worst} us", late.len());
    assert!(late.len() > 3_000, "there was load");
    assert!(worst <= WAIT_MAX, "a message waited {worst} us");
}
