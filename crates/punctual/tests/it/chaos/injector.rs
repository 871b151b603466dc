//! What is done to a world.

use super::dice;
use super::proxy::Link;
use super::world::World;
use punctual::database::crash_points::CrashPoint;
use punctual::testing::Backend;
use punctual::testing::cluster::ShutdownMode;
use std::time::Duration;

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// A worker ends without a warning.
    Kill,
    /// So does the publisher.
    KillPublisher,
    /// A process ends exactly here.
    Point(CrashPoint),
    /// A worker stands still until its claims are lost, and goes on with them.
    Freeze,
    /// The server is stopped and started.
    RestartFast,
    /// The server crashes and recovers.
    RestartImmediate,
    /// A process's connections are reset.
    Reset,
    /// A process's connections are half open: it says what it says to nobody.
    Swallow,
    /// The server's answers to a process take long.
    Slow,
    /// A process can reach nobody for a while.
    Refuse,
    /// The server commits, and its answer is lost.
    LoseCommit,
    /// There is no room for a while.
    FullDisk,
    /// The disk writes commits and says that it could not, until the power fails for everybody.
    FailedCommits,
}

/// A frozen worker wakes up so long after: its lease, and time for others to notice.
const FREEZE: Duration = Duration::from_millis(1_500);
/// How long a link is slow, refused or half open for newcomers, and a disk full.
const OUTAGE: Duration = Duration::from_millis(500);
/// How long commits fail before the power does.
const FAILING: Duration = Duration::from_millis(150);
/// Each answer over a slow link.
const SLOW: Duration = Duration::from_millis(40);
/// Points that are reached only when a lease has run out.
const AFTER_A_LOSS: [CrashPoint; 3] =
    [CrashPoint::MarkedBeforeStart, CrashPoint::ReapingChosen, CrashPoint::ReapedBeforeCommit];
/// Workers stand still for so long that there is work for a batch.
const PILE_UP: Duration = Duration::from_millis(250);
/// How long a process is given to reach a point.
const SPRUNG_SOON: Duration = Duration::from_millis(600);
const SPRUNG_AFTER_A_LOSS: Duration = Duration::from_millis(2_000);

impl Injection {
    pub fn name(self) -> String {
        match self {
            Self::Point(point) => point.name().to_owned(),
            other => {
                let mut name = String::new();
                for letter in format!("{other:?}").chars() {
                    if letter.is_uppercase() && !name.is_empty() {
                        name.push('-');
                    }
                    name.extend(letter.to_lowercase());
                }
                name
            }
        }
    }

    /// All that can be done to a world.
    pub fn deck(backend: Backend) -> Vec<Self> {
        let mut deck = vec![Self::Kill, Self::KillPublisher, Self::Freeze, Self::FullDisk];
        deck.extend(CrashPoint::ALL.iter().copied().map(Self::Point));
        if backend == Backend::Sqlite {
            deck.push(Self::FailedCommits);
        } else {
            deck.extend([Self::RestartFast, Self::RestartImmediate, Self::Reset, Self::Swallow]);
            deck.extend([Self::Slow, Self::Refuse, Self::LoseCommit]);
        }
        deck
    }

    /// What is done in the `n`-th round: decks are shuffled and dealt, so that all have their turn.
    pub fn deal(backend: Backend, seed: u64, n: u64, count: usize) -> Vec<Self> {
        let deck = Self::deck(backend);
        let size = deck.len() as u64;
        let card = |at: u64| {
            let mut shuffled = deck.clone();
            shuffled.sort_by_key(|card| dice(seed ^ (at / size), name_number(*card)));
            shuffled[usize::try_from(at % size).unwrap()]
        };
        let count = count as u64;
        (n * count..(n + 1) * count).map(card).collect()
    }
}

fn name_number(card: Injection) -> u64 {
    card.name().bytes().fold(7, |n, byte| dice(n, byte.into()))
}

impl World {
    /// Does one thing, and what it takes to end it. What a process does at a named point is
    /// counted when it has.
    pub async fn inject(&mut self, injection: Injection, seed: u64) {
        let worker = usize::try_from(dice(seed, 1)).unwrap_or(0) % self.workers();
        let anybody = usize::try_from(dice(seed, 2) >> 1).unwrap_or(0) % (self.workers() + 1);
        match injection {
            Injection::Kill => self.kill(worker),
            Injection::KillPublisher => self.kill(self.publisher()),
            Injection::Point(point) => {
                let publishes =
                    matches!(point, CrashPoint::EnqueuedBeforeCommit | CrashPoint::EnqueuedBeforeAnswer);
                if publishes {
                    self.arm(self.publisher(), point, 1 + dice(seed, 3) % 3);
                    return self.until_sprung(point, SPRUNG_SOON).await;
                }
                if AFTER_A_LOSS.contains(&point) {
                    // Somebody must lose something first, and anybody may find it.
                    self.lose_a_batch(worker).await;
                    (0..self.workers()).for_each(|n| self.arm(n, point, 1));
                    return self.until_sprung(point, SPRUNG_AFTER_A_LOSS).await;
                }
                self.arm(worker, point, 1 + dice(seed, 3) % 3);
                return self.until_sprung(point, SPRUNG_SOON).await;
            }
            Injection::Freeze => {
                self.signal(worker, "STOP");
                tokio::time::sleep(FREEZE).await;
                self.signal(worker, "CONT");
            }
            Injection::RestartFast => self.restart_server(ShutdownMode::Fast),
            Injection::RestartImmediate => self.restart_server(ShutdownMode::Immediate),
            Injection::Reset => self.link(anybody).reset(),
            Injection::Swallow => self.with_link(anybody, Link::Swallow).await,
            Injection::Slow => self.with_link(anybody, Link::Slow(SLOW)).await,
            Injection::Refuse => self.with_link(anybody, Link::Refuse).await,
            Injection::LoseCommit => {
                let before = self.link(anybody).lost_commits();
                self.with_link(anybody, Link::LoseCommit).await;
                if self.link(anybody).lost_commits() == before {
                    return;
                }
            }
            Injection::FullDisk => {
                if !self.fill_disk(true) {
                    return;
                }
                tokio::time::sleep(OUTAGE).await;
                self.fill_disk(false);
            }
            Injection::FailedCommits => {
                // Only the last commit comes back. With the workers' it is hardly ever one of the
                // publisher's.
                if dice(seed, 4).is_multiple_of(2) {
                    (0..self.workers()).for_each(|n| self.signal(n, "STOP"));
                }
                self.tell_all("commits fail");
                tokio::time::sleep(FAILING).await;
                self.cut_power().await;
            }
        }
        self.count(injection);
    }

    /// Lets work pile up, so that a worker takes a batch of it, and ends that worker with it.
    async fn lose_a_batch(&mut self, worker: usize) {
        (0..self.workers()).for_each(|n| self.signal(n, "STOP"));
        tokio::time::sleep(PILE_UP).await;
        self.arm(worker, CrashPoint::HandledBeforeSettle, 1);
        (0..self.workers()).for_each(|n| self.signal(n, "CONT"));
        self.until_sprung(CrashPoint::HandledBeforeSettle, SPRUNG_SOON).await;
    }

    async fn with_link(&self, slot: usize, link: Link) {
        self.link(slot).set(link);
        tokio::time::sleep(OUTAGE).await;
        self.link(slot).set(Link::Open);
    }
}

#[test]
fn every_card_is_dealt_once_from_each_deck() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let deck = Injection::deck(backend);
        let rounds = deck.len() as u64;
        let dealt: Vec<_> = (0..rounds).flat_map(|n| Injection::deal(backend, 5, n, 3)).collect();
        for card in deck {
            assert_eq!(dealt.iter().filter(|c| **c == card).count(), 3, "{card:?}");
        }
    }
}
