//! Real channels and brokers for Punctual.
//!
//! Each provider will be a feature of its own, so that an embedder pays only for what
//! it sends through. Nothing is here yet: the engine's queue and outbox come first, and
//! the channel contract that providers implement arrives with the notifications chapter.
