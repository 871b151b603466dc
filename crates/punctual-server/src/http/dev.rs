//! For staging and tests: only there when the engine runs on a manual clock.

pub mod clock;
