//! Punctual as a server: it parses, calls one verb of the engine, and renders.
//!
//! | | |
//! |---|---|
//! | [`http`] | the whole route table on one screen |
//! | [`cli`] | the commands |
//! | [`config`] | settings: flag over environment over file over default |
//! | [`demo`] | a small shop at work |
//! | [`rate_limit`] | how often strangers may ask |
//! | [`auth`] | who is asking, and what they may do |
//! | [`app`] | what every request sees |

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
