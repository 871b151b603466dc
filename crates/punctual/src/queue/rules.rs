//! The decisions of the queue: pure, synchronous, without I/O, clocks or randomness.

pub mod attempt;
pub mod claim;
pub mod inbox;
pub mod message;
pub mod pace;
pub mod purpose;
pub mod queue;
pub mod share;
pub mod subscription;
pub mod timer;
