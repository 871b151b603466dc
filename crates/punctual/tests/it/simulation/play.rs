//! A run from its seed to its verdict: trouble first, then healing, then everything must end.

use super::checker::name_of;
use super::faults::Counts;
use super::inbox::receiver;
use super::leases::rival;
use super::people::{clerk, person};
use super::truth::Verdict;
use super::workload::{Scene, node, publisher, troublemaker, worker};
use super::world::{Inside, World};
use punctual::database::planted_bugs::PlantedBug;
use std::sync::Arc;
use std::time::Duration;

/// After healing, everything that can be worked off is, within this time. Long enough for the
/// longest pauses of a loop, the longest leases and all retries one after the other.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    pub violation: Option<String>,
    pub trace: Vec<String>,
    pub counts: Counts,
    pub messages: usize,
    pub effects: usize,
    /// Virtual time.
    pub lasted: Duration,
}

/// Plays a seed.
pub fn play(seed: u64, bug: Option<PlantedBug>) -> Report {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    let world = runtime.block_on(async { World::new(seed, bug) });
    let inside = Inside::of(&world, seed);
    let lasted = runtime.block_on(async {
        let start = tokio::time::Instant::now();
        let verdict = phases(&world).await;
        world.judge(verdict);
        start.elapsed()
    });
    drop(runtime);
    drop(inside);
    let mut state = world.state();
    Report {
        violation: state.violation.take(),
        trace: std::mem::take(&mut state.trace),
        counts: state.counts.clone(),
        messages: state.truth.entries.len(),
        effects: state.truth.entries.values().map(|entry| entry.effects).sum(),
        lasted,
    }
}

async fn phases(world: &Arc<World>) -> Verdict {
    let scene = Arc::new(Scene::set(world).await.map_err(|e| e.to_string())?);
    let nodes = trouble(world, &scene).await?;
    world.say("world", "heals");
    world.state().healed = true;
    scene.resume_all().await.map_err(|e| e.to_string())?;
    scene.release_all().await.map_err(|e| e.to_string())?;
    planned(world).await?;
    scene.disable_jobs().await.map_err(|e| e.to_string())?;
    worked_off(world).await?;
    scene.acquire_all().await?;
    scene.receive_all().await?;
    // What died comes back, and this time every handler succeeds.
    world.state().truth.mended = true;
    scene.replay_all().await.map_err(|e| e.to_string())?;
    worked_off(world).await?;
    stop(world, nodes).await?;
    let state = world.state();
    match state.tables.items.iter().next() {
        Some((row, item)) => Err(format!("row {row} is left in the end: {}", item.place)),
        None => state.truth.assert_all_done().and(state.entries.assert_all_ended()),
    }
}

/// Everything at once, until the publishers and the troublemaker are through.
async fn trouble(world: &Arc<World>, scene: &Arc<Scene>) -> Verdict<Vec<tokio::task::JoinHandle<()>>> {
    let plan = world.state().plan.clone();
    let nodes = (0..plan.nodes).map(|index| tokio::spawn(node(Arc::clone(world), index))).collect();
    for index in 0..plan.workers {
        tokio::spawn(worker(Arc::clone(scene), index));
    }
    let mut busy: Vec<_> = (0..plan.publishers).map(|_| tokio::spawn(publisher(Arc::clone(scene)))).collect();
    busy.extend((0..plan.rivals).map(|index| tokio::spawn(rival(Arc::clone(scene), index))));
    busy.extend((0..plan.receivers).map(|_| tokio::spawn(receiver(Arc::clone(scene)))));
    for _ in 0..plan.people {
        busy.push(tokio::spawn(person(Arc::clone(scene))));
        busy.push(tokio::spawn(clerk(Arc::clone(scene))));
    }
    busy.push(tokio::spawn(troublemaker(Arc::clone(scene))));
    for task in busy {
        task.await.map_err(|e| format!("the simulation itself failed: {e}"))?;
        if world.is_broken() {
            break;
        }
    }
    Ok(nodes)
}

/// Liveness: every job that is switched on is planned on.
async fn planned(world: &Arc<World>) -> Verdict {
    let healed = world.now();
    let done = world.until(PATIENCE, |state| state.jobs.behind(healed).is_none()).await;
    let state = world.state();
    match state.jobs.behind(healed) {
        Some(name) if !done && state.violation.is_none() => {
            Err(format!("{name} was not planned within {PATIENCE:?} after healing"))
        }
        _ => Ok(()),
    }
}

/// Liveness: nothing is left but what is dead, and what a dead head holds up.
async fn worked_off(world: &Arc<World>) -> Verdict {
    let done = world.until(PATIENCE, |state| {
        state.tables.alive(&state.truth).next().is_none() && state.jobs.queued().is_none()
    });
    let done = done.await;
    let state = world.state();
    if done || state.violation.is_some() {
        return Ok(());
    }
    let Some((row, item)) = state.tables.alive(&state.truth).next() else {
        return Err(format!("run {:?} waits for ever for an earlier one", state.jobs.queued()));
    };
    let name = state.truth.number(*row).map_or_else(|_| name_of(*row), |n| format!("message {n}"));
    Err(format!("{name} was not worked off within {PATIENCE:?} after healing: it is {}", item.place))
}

/// Stops every engine: each ends within a bounded time and holds no claim afterwards.
async fn stop(world: &Arc<World>, nodes: Vec<tokio::task::JoinHandle<()>>) -> Verdict {
    world.state().over = true;
    world.state().nodes.iter().for_each(|node| node.stop.notify_one());
    for node in nodes {
        // A planted bug may leave an engine with work that never ends.
        let ended = tokio::time::timeout(PATIENCE, node).await;
        let ended = ended.map_err(|_| format!("an engine was not stopped within {PATIENCE:?}"))?;
        ended.map_err(|e| format!("an engine could not be stopped: {e}"))?;
    }
    Ok(())
}
