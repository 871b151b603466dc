//! Punctual as a server: it parses, calls one verb of the engine, and renders.
//!
//! | | |
//! |---|---|
//! | [`http`] | the whole route table on one screen |
//! | [`cli`] | the commands |
//! | [`config`] | settings: flag over environment over file over default |
//! | [`connections`] | limits and timeouts of connections |
//! | [`rate_limit`] | limits of public requests |
//! | [`auth`] | the caller and the role |
//! | [`app`] | the state of every request |
//! | [`demo`] | a small shop with live traffic |

pub mod app;
pub mod auth;
pub mod base64;
pub mod cli;
pub mod config;
pub mod connections;
pub mod demo;
mod disk_space;
pub mod http;
mod http_client;
pub mod rate_limit;
