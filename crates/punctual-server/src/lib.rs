//! Punctual as a server: it parses, calls one verb of the engine, and renders.
//!
//! | | |
//! |---|---|
//! | [`http`] | the whole route table on one screen |
//! | [`cli`] | the commands |
//! | [`app`] | what every request sees |

pub mod app;
pub mod cli;
pub mod http;
